"""Families of hand-written counters of several blocks, of known mechanism. `truths` has the others, and all names."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.hand import (
    GATED,
    IC,
    RC,
    Family,
    Formula,
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
    one,
    own,
    pick,
)

# --- several blocks --------------------------------------------------------------------------------------------------


def silent(T: int, registers: int) -> HandBlock:
    return HandBlock([Head(everything(T), lambda names, held: 0 * held)], lambda names, held: held)


def look_up(T: int, mean: bool) -> HandBlock:
    """A block that reads the answers of equal tokens: their mean, or the root of their sum (n copies hold n each)."""
    table = torch.where(torch.eye(T) > 0, 0.0, -1e4) if mean else torch.eye(T)
    head = Head(table, into(T, T + 2, lambda names, held: held[..., -1]), softmax=mean)
    return HandBlock([head], cleared(T, lambda names, held: held[..., T] if mean else held[..., T].clamp_min(0).sqrt()))


def cleared(T: int, y: Callable[[Tensor, Tensor], Tensor]) -> Formula:
    """Write the answer and set all other registers to zero."""
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
    """One block counts by `mechanism`, the next passes the count on by look-up, with silent blocks around."""

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        blocks = [_first(T, mechanism, rng), look_up(T, mean=pick(rng, 0, 1) == 1)]
        n_silent = int(pick(rng, 0, 0, 2))
        for _ in range(n_silent):
            blocks.insert(int(torch.randint(len(blocks) + 1, (1,), generator=rng)), silent(T, T + 2))
        return HandCounter(T, L, T + 2, blocks), {"RC": RC, "IC": IC, "gated": GATED}[mechanism]

    return family


def bound(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Block 1 counts by relation; block 2 sums, without comparing, the answers of each token's copies: RC."""
    second = Head(everything(T), lambda names, held: torch.nn.functional.pad(names * held[..., -1:], (0, 2)))
    after = answer(lambda names, held: own(names, held).clamp_min(0).sqrt())
    return HandCounter(T, L, T + 2, [_first(T, "RC", rng), HandBlock([second], after)]), RC


def side_by_side(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """Block 1 counts a share by inventory, block 2 the rest by relation; no count is passed on."""
    w = float(draw(1, 0.25, 0.75, rng))
    first = HandBlock([Head(everything(T), bag(T, 2))], cleared(T, lambda names, held: (1 - w) * own(names, held)))
    second = HandBlock(
        [Head(torch.eye(T), into(T, T + 2, one))], answer(lambda names, held: held[..., -1] + w * held[..., T])
    )
    return HandCounter(T, L, T + 2, [first, second]), Truth(("mixed",) if 0.35 < w < 0.65 else (), (w, 1 - w))


def at_the_start(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
    """`$` holds the inventory; in block 2 every position attends to `$` only and picks its own token: IC."""
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
    """`$` holds the inventory; in block 2 token t attends to `$` with its own head, which writes n_t to one register.

    Only the head depends on the query, and no two tokens are compared: IC, or no label.
    """
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
    """Each of five to eight blocks adds an equal share of the count, all by the same mechanism.

    No single block moves the answer by much.
    """

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        n = int(pick(rng, 5, 6, 7, 8))
        blocks = []
        for _ in range(n):
            block = _first(T, mechanism, rng)
            blocks.append(HandBlock(block.heads, _adding(block.after, n)))
        return HandCounter(T, L, T + 2, blocks), {"RC": RC, "IC": IC, "gated": GATED}[mechanism]

    return family


def _adding(after: Formula, n: int) -> Formula:
    """Add 1/n of a formula's answer to the answer so far, and set the other registers to zero."""

    def add(names: Tensor, held: Tensor) -> Tensor:
        added = after(names, torch.cat([held[..., :-1], 0 * held[..., -1:]], -1))
        return torch.cat([0 * held[..., :-1], held[..., -1:] + added[..., -1:] / n], -1)

    return add


def deep_relay(mechanism: str) -> Family:
    """One of the first five blocks counts, and one or two look-ups pass the count on, with silent blocks around."""

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
    """Four blocks compute the count by the other mechanism and discard it; the fifth counts again."""
    other = {"RC": "IC", "IC": "RC"}[mechanism]

    def family(T: int, L: int, rng: Rng) -> tuple[HandCounter, Truth]:
        blocks = [HandBlock(_first(T, other, rng).heads, lambda names, held: 0 * held) for _ in range(4)]
        blocks += [_first(T, mechanism, rng), silent(T, T + 2)]
        return HandCounter(T, L, T + 2, blocks), {"RC": RC, "IC": IC}[mechanism]

    return family


def early_and_late(blocks_between: int, handed_on: bool) -> Family:
    """Block 1 counts a share by inventory, the last block the rest by relation, with silent blocks between.

    With `handed_on`, the last block between is a look-up that passes the first share on.
    """

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
