"""Reals as balls with integer centres: (mid, rad) at `bits` stands for some x with |x 2^bits - mid| <= rad."""

from __future__ import annotations

from math import isqrt

Ball = tuple[int, int]
GUARD = 64


def times(a: Ball, b: Ball, bits: int) -> Ball:
    rad = abs(a[0]) * b[1] + abs(b[0]) * a[1] + a[1] * b[1]
    return (a[0] * b[0]) >> bits, (rad >> bits) + 2


def plus(a: Ball, b: Ball) -> Ball:
    return a[0] + b[0], a[1] + b[1]


def over(a: Ball, b: Ball, bits: int) -> Ball:
    """a / b for b > 0."""
    if b[0] <= b[1]:
        raise ZeroDivisionError("a denominator may be zero")
    ends = [((a[0] + sign * a[1]) << bits, b[0] + other * b[1]) for sign in (-1, 1) for other in (-1, 1)]
    low, high = min(n // m for n, m in ends), max(-(-n // m) for n, m in ends)
    mid = (low + high) // 2
    return mid, high - mid


def rescaled(a: Ball, have: int, want: int) -> Ball:
    """The same number at another scale; going to a coarser one costs a unit."""
    if want >= have:
        return a[0] << (want - have), a[1] << (want - have)
    return a[0] >> (have - want), (a[1] >> (have - want)) + 2


def square_root(n: int, bits: int) -> Ball:
    root = isqrt(n << (2 * bits))
    return root, int(root * root != n << (2 * bits))


def exponential(x: Ball, bits: int) -> Ball:
    """exp(x) = exp(x / 2^j)^(2^j), with |x| / 2^j < 2^-8, where the series to the n-th term is off by less than twice
    the next one."""
    halvings = max(0, (abs(x[0]) >> bits).bit_length() + 8)
    fine = bits + GUARD + halvings + 2 * max(0, x[0] >> bits)  # a large result has a large error
    r = rescaled(x, bits, fine)
    r = r[0] >> halvings, (r[1] >> halvings) + 1
    total = term = (1 << fine, 0)
    n = 0
    while term[0]:
        n += 1
        term = times(term, r, fine)
        term = term[0] // n, term[1] // n + 1
        total = plus(total, term)
        if abs(term[0]) <= term[1]:
            break
    total = total[0], total[1] + 2 * (abs(term[0]) + term[1])
    for _ in range(halvings):
        total = times(total, total, fine)
    return rescaled(total, fine, bits)
