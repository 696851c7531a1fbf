"""How sequences go into a model and how its answers come out, found by trying: the way that counts best is taken.

What may differ: a start token in front, rows or positions first, logits in a tuple or a ModelOutput, a class for count
zero. What `encode` or `read` say is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from counting_interp.models import task
from counting_interp.models.adapter.points import LAYOUTS, Net, Point, locate

N_TRIED = 250  # sequences
SOLVED = 0.9
GUESSED = 0.4  # untrained models get up to this many answers right, and then the plainest reading is taken
Encode = Callable[[Tensor], Any]
Read = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class Reading:
    """One way to ask a model.

    Attributes:
        encode: from sequences [row, L] to the module's input.
        read: from its output to logits [row, L, L].
        prefix: positions of the input before the sequence.
        positions: of the input, in all.
        accuracy: share of positions counted correctly.
        causal: whether a position sees only what stands before it.
        how: what was found, in words.
    """

    encode: Encode
    read: Read
    prefix: int
    positions: int
    accuracy: float
    causal: bool
    how: tuple[str, ...]


def find_reading(
    net: Net, T: int, L: int, *, encode: Encode | None, prefix: int | None, read: Read | None
) -> tuple[Reading | None, list[str]]:
    """The reading that counts best, and what is wrong where there is none. Of equals the plainest is taken."""
    readings: list[Reading] = []
    problems: list[str] = []
    for words, way in _encodings(net, T, encode):
        try:
            readings += _readings(net, T, L, words, way, prefix, read)
        except (IndexError, RuntimeError, ValueError, TypeError, AssertionError, AttributeError, KeyError) as error:
            what = str(error).splitlines()[0] if str(error) else ""
            problems.append(f"on {words} it fails ({type(error).__name__}: {what}); say with encode= what it reads")
        except _Unfit as unfit:
            problems.append(str(unfit))
    if not readings:
        return None, problems[:1]
    best = max(reading.accuracy for reading in readings)
    margin = 0.02 if best > SOLVED else 0.1  # an unsolved model may do better by chance on what it never read
    good = [reading for reading in readings if best > GUESSED and reading.accuracy >= best - margin]
    return (good or readings)[0], []


def tensor_of(inputs: Any) -> Tensor:
    """The tensor that holds the tokens in what `encode` or `ask` returned."""
    values = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else [inputs]
    return next(value for value in values if isinstance(value, Tensor))


def rows_first(inputs: Any, rows: int) -> Tensor:
    """The same tensor as [row, position, ...]."""
    tokens = tensor_of(inputs)
    return tokens if tokens.shape[0] == rows else tokens.transpose(0, 1)


class _Unfit(Exception):  # noqa: N818 (a reason, caught here)
    pass


def _encodings(net: Net, T: int, encode: Encode | None) -> Iterator[tuple[str, Encode]]:
    if encode is not None:
        yield getattr(encode, "words", "what encode= gives"), encode
        return
    vocabulary = max((part.num_embeddings for part in net.parts.values() if isinstance(part, nn.Embedding)), default=0)
    start = getattr(getattr(net.module, "config", None), "bos_token_id", None)
    starts = dict.fromkeys([T, start if isinstance(start, int) and start >= T else T])
    ways: list[tuple[str, int, Encode]] = [("tokens 0..T-1 as they are", T, lambda tokens: tokens)]
    ways += [(f"tokens with the start token {one} in front", one + 1, partial(_led, start=one)) for one in starts]
    ways.append(("tokens 1..T with the start token 0 in front", T + 1, _from_one))
    for words, needed, way in ways:
        if not vocabulary or needed <= vocabulary:
            yield words, way
            yield f"{words}, positions first", partial(_positions_first, way)


def _positions_first(way: Encode, tokens: Tensor) -> Tensor:
    inputs: Tensor = way(tokens)
    return inputs.transpose(0, 1)


def _from_one(tokens: Tensor) -> Tensor:
    return _led(tokens + 1, 0)


def _led(tokens: Tensor, start: int) -> Tensor:
    return nn.functional.pad(tokens, (1, 0), value=start)


def _readings(
    net: Net, T: int, L: int, words: str, encode: Encode, prefix: int | None, read: Read | None
) -> Iterator[Reading]:
    device = next(net.module.parameters()).device
    tokens = task.sample("paper", N_TRIED, T=T, L=L, generator=0).to(device)
    inputs = encode(tokens)
    positions = rows_first(inputs, N_TRIED).shape[1]
    begins = _prefix(encode, tokens[:2], T, prefix)
    output = net.run(inputs)
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % T
    changed, few = net.run(encode(other)), net.run(encode(tokens[: L + 2]))
    for how, reader in _readers(output, L, begins, positions, read):
        logits = reader(output)
        if tuple(logits.shape) != (N_TRIED, L, L):
            raise _Unfit(
                f"an answer needs logits for {L} positions and the counts 1..{L}, of shape "
                f"[row, {L}, {L}], got [row, {', '.join(map(str, logits.shape[1:]))}]; say with read= where they are"
            )
        scale = logits.abs().amax().clamp_min(1e-30)
        if (reader(few) - logits[: L + 2]).abs().amax() > 1e-3 * scale:
            raise _Unfit(f"on {words} its rows depend on each other; say with encode= what it reads")
        causal = bool((reader(changed) - logits)[:, : L - 1].abs().amax() <= 1e-4 * scale)
        truth = task.running_count(tokens) if causal else task.histogram(tokens)
        accuracy = float((logits.argmax(-1) + 1 == truth).double().mean())
        facts = (words, how)
        yield Reading(encode, reader, begins, positions, accuracy, causal, facts)


def _readers(output: Any, L: int, prefix: int, positions: int, read: Read | None) -> Iterator[tuple[str, Read]]:
    if read is not None:
        yield "logits as read= says", read
        return
    found_at = locate(output, N_TRIED, positions)
    if found_at is None:
        raise _Unfit(f"its output has no tensor [row, {positions}, class]; say with read= where the logits are")
    point = Point("output", 0, *found_at)
    classes = point.read(output, N_TRIED).shape[-1]
    where = "the output" if point.item is None else f"the output's {point.item!r}"
    where += "" if point.layout == LAYOUTS[0] else f" ({point.layout})"
    if classes < L:
        raise _Unfit(f"an answer needs logits of the counts 1..{L}, {where} has {classes}; say with read= where")
    for first in (0, 1) if classes > L else (0,):
        cut = slice(prefix, prefix + L), slice(first, first + L)
        words = f"logits of count 1 to {L} are classes {first} to {first + L - 1} of {where}"
        yield words, partial(_logits, point, positions, cut)


def _logits(point: Point, positions: int, cut: tuple[slice, slice], output: Any) -> Tensor:
    value: Tensor = output if point.item is None else output[point.item]
    return point.read(output, value.shape[0] // positions)[:, cut[0], cut[1]]


def _prefix(encode: Encode, tokens: Tensor, T: int, prefix: int | None) -> int:
    """At which position a sequence begins: where the input changes with its first token. Others must follow it."""
    rows, L = tokens.shape
    plain = rows_first(encode(tokens), rows)
    begins = None
    for position in range(L):
        other = tokens.clone()
        other[:, position] = (other[:, position] + 1) % T
        changed = (rows_first(encode(other), rows) != plain).reshape(rows, plain.shape[1], -1).any(-1)
        at = changed[0].nonzero().flatten().tolist()
        begins = at[0] if begins is None and at else begins
        if begins is None or at != [begins + position] or not torch.equal(changed[0], changed[-1]):
            raise _Unfit("encode must put token l of a sequence at one position, and token l + 1 at the next one")
    assert begins is not None
    if prefix is not None and prefix != begins:
        raise _Unfit(f"prefix={prefix}, but the sequence begins at position {begins}; say encode=, or leave prefix out")
    return begins
