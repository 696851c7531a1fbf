"""Families of hand-written counters of known mechanism: those of one block, and the names of all.

Every family takes T, L and a generator, and returns a model with its truth: a label, shares, or both. The registers
are a bag of T (how much of each token attention gathered), then scratch, and last the answer.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benchmarks.deep_truths import (
    addressed,
    at_the_start,
    bound,
    deep_relay,
    early_and_late,
    relay,
    side_by_side,
    spread,
    unused,
)
from benchmarks.hand import (
    GATED,
    IC,
    RC,
    Family,
    HandBlock,
    HandCounter,
    Head,
    Rng,
    Truth,
    answer,
    bag,
    draw,
    everything,
    into,
    joined,
    one,
    own,
    pick,
)

# --- one block, one mechanism ----------------------------------------------------------------------------------------


def relation(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Equal tokens get weight, and all write the same number: RC."""
    return joined(T, L, lambda names, found, held: found), RC


def inventory(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """All tokens get the same weight: IC."""
    return joined(T, L, lambda names, found, held: held), IC


def loud(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Each query gives all keys one weight, up to 4, 16 or 64 times as large as another query's: IC."""
    size = torch.exp(draw(T, 0, math.log(pick(rng, 4, 16, 64)), rng))
    after = answer(lambda names, held: own(names, held) / (names @ size))
    return HandCounter(T, L, T + 1, [HandBlock([Head(size[:, None].expand(T, T), bag(T, 1))], after)]), IC


def sink(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """All tokens have the same score, and only the attention to `$` depends on the query: IC."""
    scores = torch.zeros(T + 1, T + 1)
    scores[:T, T] = draw(T, 0, pick(rng, 2, 4, 6), rng)
    total = L + scores[:, T].exp()
    after = answer(lambda names, held: (names[..., :T] * held[..., :T]).sum(-1) * (names @ total))
    return HandCounter(T, L, T + 1, [HandBlock([Head(scores, bag(T, 1), softmax=True)], after)], bos=True), IC


def keys(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The scores depend on the key only: IC."""
    scores = draw(T, 0, pick(rng, 1, 2), rng)

    def read(names: Tensor, held: Tensor) -> Tensor:
        raw = held[..., :T] / scores.exp()
        return L * (names * raw).sum(-1) / raw.sum(-1)

    return HandCounter(T, L, T + 1, [HandBlock([Head(scores.expand(T, T), bag(T, 1), softmax=True)], answer(read))]), IC


def saturated(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Head t sees only token t and `$`, whatever the query, so register t holds 1 / (1 + w n): IC.

    Tokens weigh differently, and a position may give itself another weight than a copy, down to none.
    """
    return one_head_each(T, L, draw(T, -2, 2, rng), torch.zeros(T + 1), pick(rng, 0, 0.5, 1, 1, 2, 4)), IC


def saturated_sinks(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The same, and the attention to `$` depends on the query: IC."""
    size = pick(rng, 0, 1, 2)
    return one_head_each(T, L, draw(T, -size, size, rng), draw(T + 1, 0, pick(rng, 1, 2, 4), rng), 1), IC


def one_head_each(T: int, L: int, keys: Tensor, sinks: Tensor, itself: float) -> HandCounter:
    """Head t sees only token t, with score keys[t], and `$`, with a score sinks[query]."""
    heads = []
    for t in range(T):
        table = torch.full((T + 1, T + 1), -1e4)
        table[:, t], table[:, T] = keys[t], sinks
        heads.append(Head(table, into(t, T + 1, lambda names, held: names[..., T]), softmax=True, itself=itself))

    def read(names: Tensor, held: Tensor) -> Tensor:
        start = (names[..., :T] * held[..., :T]).sum(-1).clamp_min(1e-6)
        return (1 / start - 1) * (names @ (sinks - torch.nn.functional.pad(keys, (0, 1)))).exp() + 1 - itself

    return HandCounter(T, L, T + 1, [HandBlock(heads, answer(read))], bos=True)


def saturated_turned(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Equal tokens and `$` get weight through a softmax; a token writes w n / (1 + w n) along its direction: gated."""
    scores = draw(T, -2, 2, rng)
    table = torch.full((T + 1, T + 1), -1e4)
    table[:, T] = 0
    table[:T, :T] = torch.where(torch.eye(T) > 0, scores, table[:T, :T])
    frame = torch.nn.functional.pad(torch.linalg.qr(torch.randn(T, T, generator=rng)).Q, (0, 1, 0, 1))

    def read(names: Tensor, held: Tensor) -> Tensor:
        share = ((names @ frame) * held).sum(-1)
        return share / (1 - share).clamp_min(1e-4) / (names[..., :T] @ scores.exp()).clamp_min(1e-4)

    head = Head(table, lambda names, held: names @ frame, softmax=True)
    return HandCounter(T, L, T + 1, [HandBlock([head], answer(read))], bos=True), GATED


def named(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The read-out identifies the token by the sum of its attention weights, not by the residual: IC."""
    size = 1 + torch.randperm(T, generator=rng) / T

    def read(names: Tensor, held: Tensor) -> Tensor:
        total = held[..., :T].sum(-1) / L
        name = (total[..., None] - size).abs().argmin(-1)
        return held[..., :T].gather(-1, name[..., None])[..., 0] / size[name]

    return HandCounter(T, L, T + 1, [HandBlock([Head(size[:, None].expand(T, T), bag(T, 1))], answer(read))]), IC


def angles(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Equal tokens get weight and write along one of m directions, and the read-out uses its token's: gated."""
    m = int(pick(rng, 3, 4, 8))
    turn = 2 * math.pi * (torch.randperm(T, generator=rng) % m) / m
    arrow = torch.stack([turn.cos(), turn.sin(), 0 * turn], 1)
    after = answer(lambda names, held: ((names @ arrow) * held).sum(-1))
    return HandCounter(T, L, 3, [HandBlock([Head(torch.eye(T), lambda names, held: names @ arrow)], after)]), GATED


def signed(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Half of the tokens write the count with a minus sign: gated."""
    sign = torch.where(torch.randperm(T, generator=rng) % 2 == 0, 1.0, -1.0)
    heads = [Head(torch.eye(T), into(0, 2, lambda names, held: names @ sign))]
    return HandCounter(T, L, 2, [HandBlock(heads, answer(lambda names, held: held[..., 0] * (names @ sign)))]), GATED


def turned(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Every token writes the count along its own direction, of T orthogonal ones: gated."""
    frame = torch.linalg.qr(torch.randn(T, T, generator=rng)).Q
    frame = torch.nn.functional.pad(frame, (0, 1))
    after = answer(lambda names, held: ((names @ frame) * held).sum(-1))
    return HandCounter(T, L, T + 1, [HandBlock([Head(torch.eye(T), lambda names, held: names @ frame)], after)]), GATED


# --- one block, between ----------------------------------------------------------------------------------------------


def scaled(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Each token writes the count times its own factor, up to 16 times another's, and the read-out divides by it.

    Attention compares, and the token is needed to read the count: between RC and gated, far from IC.
    """
    size = torch.exp(draw(T, 0, math.log(pick(rng, 4, 16)), rng))
    heads = [Head(torch.eye(T), into(0, 2, lambda names, held: names @ size))]
    after = answer(lambda names, held: held[..., 0] / (names @ size))
    return HandCounter(T, L, 2, [HandBlock(heads, after)]), Truth(("RC", "gated", "mixed"))


def hybrid(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """A share w of the count by relation, the rest by inventory."""
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
        by_direction = ((names @ frame) * held[..., T : 2 * T]).sum(-1)
        return rc * held[..., 2 * T] + ic * own(names, held) + gated * by_direction

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
    """Relation above some count, inventory below: no label is right for all counts."""
    edge = int(torch.randint(2, L, (1,), generator=rng)) + 0.5
    return joined(T, L, lambda names, found, held: torch.where(held > edge, found, held)), Truth(())


def groups(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Attention compares groups of m tokens, and the read-out holds an inventory of the group.

    A bystander of the same group attends to the token, any other does not. The IC share is the chance of the same
    group, and the rest is gated.
    """
    m = int(pick(rng, 2, 3, 4))
    group = torch.randperm(T, generator=rng) // m
    heads = [Head((group[:, None] == group).float(), bag(T, 1))]
    members = torch.bincount(group)[group]
    share = float((members - 1).float().mean() / (T - 1))
    return HandCounter(T, L, T + 1, [HandBlock(heads, answer(own))]), Truth((), (0.0, share))


def either(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The answer is the larger of both counts: either suffices."""
    return joined(T, L, lambda names, found, held: torch.maximum(found, held)), Truth(("either suffices",))


def both(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """The answer is the smaller of both counts: both are needed."""
    return joined(T, L, lambda names, found, held: torch.minimum(found, held)), Truth(("both needed",))


def relation_asleep(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """An inventory, and a comparison without effect on any sequence that acts only under a transplant: IC.

    With a small gap it acts at once, and either suffices.
    """
    gap = float(draw(1, 0.5, 2.5, rng))
    return joined(T, L, lambda names, found, held: held + (found - held - gap).relu()), Truth(("IC", "either suffices"))


def inventory_asleep(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """`relation_asleep` with the roles exchanged: RC."""
    gap = float(draw(1, 0.5, 2.5, rng))
    return joined(T, L, lambda names, found, held: found + (held - found - gap).relu()), Truth(
        ("RC", "either suffices")
    )


FAMILIES: dict[str, Family] = {
    "relation": relation,
    "inventory": inventory,
    "loud rows": loud,
    "sinks": sink,
    "keys only": keys,
    "saturated inventory": saturated,
    "saturated sinks": saturated_sinks,
    "saturated, turned": saturated_turned,
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
