"""Families of counters by hand: how each is built, and how its truth is known.

Every family takes T, L and a generator, and gives a model with what is true of it: a label, shares, or both. Registers
are, from the left, a bag of T (how often each token was heard) and scratch; the last is the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.hand import Formula, HandBlock, HandCounter, Head

Rng = torch.Generator


@dataclass(frozen=True)
class Truth:
    """What is known of a model.

    Attributes:
        labels: the labels that are right; empty where only the shares are known.
        shares: RC and IC as built; None where only the label is known.
    """

    labels: tuple[str, ...]
    shares: tuple[float, float] | None = None


Family = Callable[[int, int, Rng], tuple[HandCounter, Truth]]
RC, IC, GATED = (Truth((name,), share) for name, share in (("RC", (1, 0)), ("IC", (0, 1)), ("gated", (0, 0))))


def draw(n: int, low: float, high: float, rng: Rng) -> Tensor:
    return low + (high - low) * torch.rand(n, generator=rng)


def pick(rng: Rng, *choices: float) -> float:
    return choices[int(torch.randint(len(choices), (1,), generator=rng))]


# --- parts -----------------------------------------------------------------------------------------------------------


def bag(T: int, extra: int) -> Formula:
    """Every token says its name, into the bag."""
    return lambda names, held: torch.nn.functional.pad(names[..., :T], (0, extra))


def into(register: int, registers: int, amount: Callable[[Tensor, Tensor], Tensor]) -> Formula:
    """Every token says a number, into one register."""

    def value(names: Tensor, held: Tensor) -> Tensor:
        said = amount(names, held)
        return torch.nn.functional.one_hot(torch.tensor(register), registers) * said[..., None]

    return value


def one(names: Tensor, held: Tensor) -> Tensor:
    return names.sum(-1)


def own(names: Tensor, held: Tensor) -> Tensor:
    """What the bag holds of the position's own token."""
    T = names.shape[-1]
    return (names * held[..., :T]).sum(-1)


def answer(y: Callable[[Tensor, Tensor], Tensor]) -> Formula:
    return lambda names, held: torch.cat([held[..., :-1], y(names, held)[..., None]], -1)


def everything(T: int) -> Tensor:
    return torch.ones(T, T)


def two_heads(T: int, gain: float = 1.0) -> list[Head]:
    """An inventory in the bag, and attention's count of equal tokens in the register behind it."""
    return [Head(everything(T), bag(T, 2)), Head(gain * torch.eye(T), into(T, T + 2, one))]


def joined(T: int, L: int, y: Callable[[Tensor, Tensor, Tensor], Tensor]) -> HandCounter:
    """One block with both: y(names, what attention found, what the inventory holds)."""
    after = answer(lambda names, held: y(names, held[..., T], own(names, held)))
    return HandCounter(T, L, T + 2, [HandBlock(two_heads(T), after)])


# --- one block, one mechanism ----------------------------------------------------------------------------------------


def relation(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Equal tokens get weight, all say the same number: RC."""
    return joined(T, L, lambda names, found, held: found), RC


def inventory(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """All tokens get the same weight: IC."""
    return joined(T, L, lambda names, found, held: held), IC


def loud(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """A row of weights is one number, up to 4, 16 or 64 times as large for one token as for another: IC."""
    size = torch.exp(draw(T, 0, math.log(pick(rng, 4, 16, 64)), rng))
    after = answer(lambda names, held: own(names, held) / (names @ size))
    return HandCounter(T, L, T + 1, [HandBlock([Head(size[:, None].expand(T, T), bag(T, 1))], after)]), IC


def sink(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """All tokens have the same score, only the share of `$` depends on the query: IC."""
    scores = torch.zeros(T + 1, T + 1)
    scores[:T, T] = draw(T, 0, pick(rng, 2, 4, 6), rng)
    total = L + scores[:, T].exp()
    after = answer(lambda names, held: (names[..., :T] * held[..., :T]).sum(-1) * (names @ total))
    return HandCounter(T, L, T + 1, [HandBlock([Head(scores, bag(T, 1), softmax=True)], after)], bos=True), IC


def keys(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """One and the same row of scores for every query: IC."""
    scores = draw(T, 0, pick(rng, 1, 2), rng)

    def read(names: Tensor, held: Tensor) -> Tensor:
        raw = held[..., :T] / scores.exp()
        return L * (names * raw).sum(-1) / raw.sum(-1)

    return HandCounter(T, L, T + 1, [HandBlock([Head(scores.expand(T, T), bag(T, 1), softmax=True)], answer(read))]), IC


def named(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The read-out learns the token's name from the size of its row, not from the residual: IC."""
    size = 1 + torch.randperm(T, generator=rng) / T

    def read(names: Tensor, held: Tensor) -> Tensor:
        total = held[..., :T].sum(-1) / L
        name = (total[..., None] - size).abs().argmin(-1)
        return held[..., :T].gather(-1, name[..., None])[..., 0] / size[name]

    return HandCounter(T, L, T + 1, [HandBlock([Head(size[:, None].expand(T, T), bag(T, 1))], answer(read))]), IC


def angles(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Equal tokens get weight and write the count along one of m directions; the read-out takes its token's: gated."""
    m = int(pick(rng, 3, 4, 8))
    turn = 2 * math.pi * (torch.randperm(T, generator=rng) % m) / m
    arrow = torch.stack([turn.cos(), turn.sin(), 0 * turn], 1)
    after = answer(lambda names, held: ((names @ arrow) * held).sum(-1))
    return HandCounter(T, L, 3, [HandBlock([Head(torch.eye(T), lambda names, held: names @ arrow)], after)]), GATED


def signed(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Half of the tokens write the count upwards, half downwards: gated."""
    sign = torch.where(torch.randperm(T, generator=rng) % 2 == 0, 1.0, -1.0)
    heads = [Head(torch.eye(T), into(0, 2, lambda names, held: names @ sign))]
    return HandCounter(T, L, 2, [HandBlock(heads, answer(lambda names, held: held[..., 0] * (names @ sign)))]), GATED


def turned(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Every token has a direction of its own in a space of T dimensions: gated."""
    frame = torch.linalg.qr(torch.randn(T, T, generator=rng)).Q
    frame = torch.nn.functional.pad(frame, (0, 1))
    after = answer(lambda names, held: ((names @ frame) * held).sum(-1))
    return HandCounter(T, L, T + 1, [HandBlock([Head(torch.eye(T), lambda names, held: names @ frame)], after)]), GATED


# --- one block, between ----------------------------------------------------------------------------------------------


def scaled(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The token writes the count times a length of its own, up to 16 times another's, and the read-out divides by it:
    attention compares, and the token is needed to read it. A scale between RC and gated, far from IC."""
    size = torch.exp(draw(T, 0, math.log(pick(rng, 4, 16)), rng))
    heads = [Head(torch.eye(T), into(0, 2, lambda names, held: names @ size))]
    after = answer(lambda names, held: held[..., 0] / (names @ size))
    return HandCounter(T, L, 2, [HandBlock(heads, after)]), Truth(("RC", "gated", "mixed"))


def hybrid(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """w of the count by relation, the rest by inventory."""
    w = float(draw(1, 0.02, 0.98, rng))
    labels = ("RC",) if w > 0.85 else ("IC",) if w < 0.15 else ("mixed",) if 0.35 < w < 0.65 else ()
    return joined(T, L, lambda names, found, held: w * found + (1 - w) * held), Truth(labels, (w, 1 - w))


def three_way(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Relation, inventory and gated, with planted shares."""
    rc, ic, gated = (2 * draw(3, 0.1, 1, rng)).softmax(0).tolist()
    frame = torch.linalg.qr(torch.randn(T, T, generator=rng)).Q
    wide = torch.nn.functional.pad(frame, (T, 2))
    heads = [
        Head(everything(T), bag(T, T + 2)),
        Head(torch.eye(T), lambda names, held: names @ wide),
        Head(torch.eye(T), into(2 * T, 2 * T + 2, one)),
    ]

    def read(names: Tensor, held: Tensor) -> Tensor:
        turned_part = ((names @ frame) * held[..., T : 2 * T]).sum(-1)
        return rc * held[..., 2 * T] + ic * own(names, held) + gated * turned_part

    return HandCounter(T, L, 2 * T + 2, [HandBlock(heads, answer(read))]), Truth((), (rc, ic))


def some_tokens(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Relation for some tokens, inventory for the others."""
    n = int(torch.randint(1, T, (1,), generator=rng))
    chosen = (torch.randperm(T, generator=rng) < n).float()
    return (
        joined(T, L, lambda names, found, held: torch.where(names @ chosen > 0, found, held)),
        Truth(("RC",) if n / T > 0.85 else ("IC",) if n / T < 0.15 else (), (n / T, 1 - n / T)),
    )


def some_counts(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Relation above a count, inventory below: no label is right for all counts."""
    edge = int(torch.randint(2, L, (1,), generator=rng)) + 0.5
    return joined(T, L, lambda names, found, held: torch.where(held > edge, found, held)), Truth(())


def groups(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Attention compares groups of m, the read-out holds an inventory of the members. A bystander of the same group
    hears the token, any other hears nothing: IC is the chance of the first, the rest is gated."""
    m = int(pick(rng, 2, 3, 4))
    group = torch.randperm(T, generator=rng) // m
    heads = [Head((group[:, None] == group).float(), bag(T, 1))]
    members = torch.bincount(group)[group]
    share = float((members - 1).float().mean() / (T - 1))
    return HandCounter(T, L, T + 1, [HandBlock(heads, answer(own))]), Truth((), (0.0, share))


def either(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The larger of both counts is the answer: either suffices."""
    return joined(T, L, lambda names, found, held: torch.maximum(found, held)), Truth(("either suffices",))


def both(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The smaller of both counts is the answer: both are needed."""
    return joined(T, L, lambda names, found, held: torch.minimum(found, held)), Truth(("both needed",))


def relation_asleep(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """An inventory, beside a comparison that is silent on every sequence and wakes under a transplant: IC. With a
    small gap it takes over at once, so that either suffices."""
    gap = float(draw(1, 0.5, 2.5, rng))
    return joined(T, L, lambda names, found, held: held + (found - held - gap).relu()), Truth(("IC", "either suffices"))


def inventory_asleep(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The same with the roles exchanged: RC."""
    gap = float(draw(1, 0.5, 2.5, rng))
    return joined(T, L, lambda names, found, held: found + (held - found - gap).relu()), Truth(
        ("RC", "either suffices")
    )


# --- several blocks --------------------------------------------------------------------------------------------------


def silent(T: int, registers: int) -> HandBlock:
    return HandBlock([Head(everything(T), lambda names, held: 0 * held)], lambda names, held: held)


def look_up(T: int, mean: bool) -> HandBlock:
    """What equal tokens have found, their mean, or the root of its sum (each of n copies has found n)."""
    table = torch.where(torch.eye(T) > 0, 0.0, -1e4) if mean else torch.eye(T)
    head = Head(table, into(T, T + 2, lambda names, held: held[..., -1]), softmax=mean)
    return HandBlock([head], cleared(T, lambda names, held: held[..., T] if mean else held[..., T].clamp_min(0).sqrt()))


def cleared(T: int, y: Callable[[Tensor, Tensor], Tensor]) -> Formula:
    """The answer so far, and empty registers."""
    return lambda names, held: torch.cat([0 * held[..., :-1], y(names, held)[..., None]], -1)


def _first(T: int, mechanism: str, rng: Rng) -> HandBlock:
    if mechanism == "IC":
        return HandBlock([Head(everything(T), bag(T, 2))], cleared(T, own))
    if mechanism == "RC":
        return HandBlock([Head(torch.eye(T), into(T, T + 2, one))], cleared(T, lambda names, held: held[..., T]))
    frame = torch.linalg.qr(torch.randn(T, T, generator=rng)).Q
    wide = torch.nn.functional.pad(frame, (0, 2))
    return HandBlock(
        [Head(torch.eye(T), lambda names, held: names @ wide)],
        cleared(T, lambda names, held: ((names @ wide) * held).sum(-1)),
    )


def relay(mechanism: str) -> Family:
    """Counted in one block, handed on by look-up in the next, with silent blocks around: as counted."""

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        blocks = [_first(T, mechanism, rng), look_up(T, mean=pick(rng, 0, 1) == 1)]
        n_silent = int(pick(rng, 0, 0, 2))
        for _ in range(n_silent):
            blocks.insert(int(torch.randint(len(blocks) + 1, (1,), generator=rng)), silent(T, T + 2))
        return HandCounter(T, L, T + 2, blocks), {"RC": RC, "IC": IC, "gated": GATED}[mechanism]

    return family


def bound(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Block 1 counts by relation; block 2 adds up, without comparing, what the copies of each token have found: RC."""
    second = Head(everything(T), lambda names, held: torch.nn.functional.pad(names * held[..., -1:], (0, 2)))
    after = answer(lambda names, held: own(names, held).clamp_min(0).sqrt())
    return HandCounter(T, L, T + 2, [_first(T, "RC", rng), HandBlock([second], after)]), RC


def side_by_side(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Block 1 counts a part by inventory, block 2 the rest by relation; nothing is handed on."""
    w = float(draw(1, 0.25, 0.75, rng))
    first = HandBlock([Head(everything(T), bag(T, 2))], cleared(T, lambda names, held: (1 - w) * own(names, held)))
    second = HandBlock(
        [Head(torch.eye(T), into(T, T + 2, one))], answer(lambda names, held: held[..., -1] + w * held[..., T])
    )
    return HandCounter(T, L, T + 2, [first, second]), Truth(("mixed",) if 0.35 < w < 0.65 else (), (w, 1 - w))


def at_the_start(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """`$` holds the inventory; in block 2 every position listens to `$` alone and picks its own token: IC."""
    everyone, start = torch.ones(T + 1, T + 1), torch.zeros(T + 1, T + 1)
    everyone[:, T], start[:, T] = 0, 1
    first = HandBlock([Head(everyone, bag(T, 2))], lambda names, held: held * names[..., T:])
    second = HandBlock(
        [Head(start, lambda names, held: held)],
        answer(lambda names, held: (names[..., :T] * held[..., :T]).sum(-1)),
    )
    return HandCounter(T, L, T + 2, [first, second], bos=True), IC


def _of(t: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda names, held: held[..., t]


def addressed(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """`$` holds the inventory of all tokens; in block 2 token t listens to `$` by a head of its own, which says n_t
    in one register for every t. Only the address depends on the query, no two tokens are compared: IC, or no label."""
    everyone = torch.ones(T + 1, T + 1)
    everyone[:, T] = 0
    first = HandBlock([Head(everyone, bag(T, 2))], lambda names, held: held * names[..., T:])
    heads = []
    for t in range(T):
        table = torch.zeros(T + 1, T + 1)
        table[t, T] = 1
        heads.append(Head(table, into(T, T + 2, _of(t))))
    return HandCounter(
        T, L, T + 2, [first, HandBlock(heads, answer(lambda names, held: held[..., T]))], bos=True
    ), Truth(("IC",))


# --- more than four blocks -------------------------------------------------------------------------------------------


def spread(mechanism: str) -> Family:
    """Each of five to eight blocks adds an equal part of the count, by one and the same mechanism. No single block
    moves the answer by much."""

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        n = int(pick(rng, 5, 6, 7, 8))
        blocks = []
        for _ in range(n):
            part = _first(T, mechanism, rng)
            blocks.append(HandBlock(part.heads, _adding(part.after, n)))
        return HandCounter(T, L, T + 2, blocks), {"RC": RC, "IC": IC, "gated": GATED}[mechanism]

    return family


def _adding(after: Formula, n: int) -> Formula:
    """A part of what a formula finds is added to the answer so far; the other registers are emptied."""

    def add(names: Tensor, held: Tensor) -> Tensor:
        found = after(names, torch.cat([held[..., :-1], 0 * held[..., -1:]], -1))
        return torch.cat([0 * held[..., :-1], held[..., -1:] + found[..., -1:] / n], -1)

    return add


def deep_relay(mechanism: str) -> Family:
    """Counted in one of the first five blocks, handed on by one or two look-ups, with silent blocks around."""

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        before, between, after = (int(torch.randint(high, (1,), generator=rng)) for high in (5, 3, 3))
        blocks = [silent(T, T + 2) for _ in range(before)]
        blocks.append(_first(T, mechanism, rng))
        for _ in range(int(pick(rng, 1, 2))):
            blocks += [silent(T, T + 2) for _ in range(between)] + [look_up(T, mean=pick(rng, 0, 1) == 1)]
        blocks += [silent(T, T + 2) for _ in range(max(after, 5 - len(blocks)))]
        return HandCounter(T, L, T + 2, blocks), {"RC": RC, "IC": IC, "gated": GATED}[mechanism]

    return family


def unused(mechanism: str) -> Family:
    """Four blocks keep the other mechanism's count in a register that nobody reads; the fifth counts anew."""
    other = {"RC": "IC", "IC": "RC"}[mechanism]

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        blocks = [HandBlock(_first(T, other, rng).heads, lambda names, held: 0 * held) for _ in range(4)]
        blocks += [_first(T, mechanism, rng), silent(T, T + 2)]
        return HandCounter(T, L, T + 2, blocks), {"RC": RC, "IC": IC}[mechanism]

    return family


def early_and_late(blocks_between: int, handed_on: bool) -> Family:
    """A part by inventory in block 1, the rest by relation in the last block, which compares late. Between them silent
    blocks; or a look-up among them, which hands on the first part."""

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        w = float(draw(1, 0.3, 0.7, rng))
        first = HandBlock([Head(everything(T), bag(T, 2))], cleared(T, lambda names, held: (1 - w) * own(names, held)))
        last = HandBlock(
            [Head(torch.eye(T), into(T, T + 2, one))], answer(lambda names, held: held[..., -1] + w * held[..., T])
        )
        between = [silent(T, T + 2) for _ in range(blocks_between)]
        if handed_on:
            between[-1] = look_up(T, mean=True)
        return HandCounter(T, L, T + 2, [first, *between, last]), Truth(("mixed",), (w, 1 - w))

    return family


FAMILIES: dict[str, Family] = {
    "relation": relation,
    "inventory": inventory,
    "loud rows": loud,
    "sinks": sink,
    "keys only": keys,
    "named inventory": named,
    "angles": angles,
    "opposite signs": signed,
    "turned": turned,
    "scaled read-out": scaled,
    "hybrid": hybrid,
    "three-way hybrid": three_way,
    "some tokens": some_tokens,
    "some counts": some_counts,
    "groups": groups,
    "either": either,
    "both": both,
    "relation asleep": relation_asleep,
    "inventory asleep": inventory_asleep,
    "relay IC": relay("IC"),
    "relay RC": relay("RC"),
    "relay gated": relay("gated"),
    "bound and added": bound,
    "side by side": side_by_side,
    "inventory at $": at_the_start,
    "addressed inventory": addressed,
    "handed-on IC, then RC": early_and_late(1, handed_on=True),
    **{f"deep relay {name}": deep_relay(name) for name in ("IC", "RC", "gated")},
    **{f"spread {name}": spread(name) for name in ("IC", "RC", "gated")},
    "late RC, unused IC": unused("RC"),
    "late IC, unused RC": unused("IC"),
    "early IC, late RC": early_and_late(4, handed_on=False),
    "handed-on IC, late RC": early_and_late(4, handed_on=True),
}
SLOW = tuple(name for name in FAMILIES if name.startswith(("deep", "spread", "late", "early", "handed-on IC, late")))
