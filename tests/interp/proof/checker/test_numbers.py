"""Balls hold what they stand for."""

from __future__ import annotations

from decimal import Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from counting_interp.interp.proof.checker.model import exponential, over, rescaled, square_root, times

BITS = 96


def holds(ball: tuple[int, int], value: Decimal, bits: int = BITS) -> bool:
    return abs(value * 2**bits - ball[0]) <= ball[1]


@given(st.integers(-20 * 2**BITS, 20 * 2**BITS), st.integers(0, 2**20))
def test_exponentials_are_enclosed_closely(mid, rad):
    with localcontext() as context:
        context.prec = 120
        ball = exponential((mid, rad), BITS)
        for end in (mid - rad, mid + rad):
            assert holds(ball, (Decimal(end) / 2**BITS).exp())
        assert ball[1] <= (8 * rad + 16) * (2 + (ball[0] >> BITS))


def test_large_exponents_keep_their_digits():
    with localcontext() as context:
        context.prec = 900
        for x in (600, -600):
            ball = exponential((x << BITS, 0), BITS)
            assert holds(ball, Decimal(x).exp())
            assert ball[1] <= 4


@given(st.integers(-(2**130), 2**130), st.integers(0, 2**30), st.integers(2**60, 2**130), st.integers(0, 2**30))
def test_products_and_quotients_are_enclosed(a, da, b, db):
    with localcontext() as context:
        context.prec = 200
        for x in (a - da, a + da):
            for y in (b - db, b + db):
                assert holds(times((a, da), (b, db), BITS), Decimal(x) * Decimal(y) / 2 ** (2 * BITS))
                assert holds(over((a, da), (b, db), BITS), Decimal(x) / Decimal(y))
        assert holds(rescaled((a, da), BITS, 40), Decimal(a + da) / 2**BITS, 40)


@given(st.integers(1, 5000))
def test_square_roots_are_enclosed(n):
    with localcontext() as context:
        context.prec = 120
        assert holds(square_root(n, BITS), Decimal(n).sqrt())
