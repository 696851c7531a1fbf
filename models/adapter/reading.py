"""How sequences go into a model and how its answers come out, found by trying: the way that counts best is taken.

What may differ: a start token in front, one more behind, rows or positions first, a `targets` argument, where in the
output logits are, which class is count 1. What `encode`, `ask` or `read` give is not tried.

A model that reads a list, then a question, and answers once is served to measures that know sequences only: each
sequence is asked about its *last* token. The position that answers is not one that is counted. What listens are all
positions outside of the list, and the mixers' outputs there stand side by side for the last position:

    [row, L, outside x width]: at position L - 1 what reaches the question, elsewhere zeros, which cannot be written.

Seen from the list instead, [row, L, width] are the mixers' outputs at the list's own positions. So one and the same
measure says what the question gathers, and what positions of the list have gathered before they are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from counting_interp.models import task
from counting_interp.models.adapter.points import AS_IT_IS, LAYOUTS, Net, Point, locations, tensors

N_TRIED = 250  # sequences
SOLVED = 0.9
MOST_CLASSES = 100  # that are tried as the first count
GUESSED = 0.4  # untrained models get up to this many answers right, and then the plainest reading is taken
ARGUMENTS = "say with encode= what it reads: a tensor, a tuple or a dictionary of arguments"
Encode = Callable[[Tensor], Any]
Ask = Callable[[Tensor, Tensor], Any]
Read = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class Reading:
    """One way to ask a model.

    Attributes:
        encode: from sequences [row, L] to the module's input.
        read: from its output to logits [row, L, L].
        prefix: positions of the input before the sequence.
        positions: of the input, in all.
        accuracy: share of answers that are right.
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


@dataclass(frozen=True, eq=False)
class Questions(Reading):
    """How a model is asked once about a list; `encode` asks about its last token, `read` gives [row, L].

    Attributes:
        ask: from sequences [row, L] and tokens [row] to the module's input.
        inside: the position of the input at which each token of the list stands.
        outside: all other positions.
    """

    ask: Ask
    inside: Tensor
    outside: Tensor

    def seen(self, value: Tensor, *, from_list: bool) -> Tensor:
        """A mixer's output [row, position, width] as positions of a sequence."""
        if from_list:
            return value[:, self.inside]
        heard = value[:, self.outside].flatten(1)
        return nn.functional.pad(heard[:, None], (0, 0, len(self.inside) - 1, 0))

    def written(self, value: Tensor, changed: Tensor, *, from_list: bool) -> Tensor:
        """The mixer's output after `changed` was made of what `seen` gave."""
        after = value.clone()
        if from_list:
            after[:, self.inside] = changed
        else:
            after[:, self.outside] = changed[:, -1].unflatten(1, (len(self.outside), -1))
        return after


class _Unfit(Exception):  # noqa: N818 (a reason, caught here)
    pass


def find_reading(
    net: Net, T: int, L: int, *, encode: Encode | None, read: Read | None
) -> tuple[Reading | None, list[str]]:
    """The reading that counts best, and what is wrong where there is none. Of equals the plainest is taken."""
    readings: list[Reading] = []
    problems: list[str] = []
    for group in _encodings(net, T, encode):
        for words, way in group:
            try:
                readings += _readings(net, T, L, words, way, read)
            except _Unfit as unfit:
                problems.append(str(unfit))
            except Exception as error:
                problems.append(f"on {words} it fails ({_first_line(error)}); {ARGUMENTS}")
        if max((reading.accuracy for reading in readings), default=0.0) > SOLVED:
            break
    if not readings:
        return None, problems[:1] or [f"its embedding has fewer than T={T} tokens; give the T of its training"]
    best = max(reading.accuracy for reading in readings)
    margin = 0.02 if best > SOLVED else 0.1  # an unsolved model may do better by chance on what it never read
    good = [reading for reading in readings if best > GUESSED and reading.accuracy >= best - margin]
    return (good or readings)[0], []


def find_questions(
    net: Net, T: int, L: int, *, ask: Ask, at: int, read: Read | None
) -> tuple[Questions | None, list[str]]:
    """How the model is asked, and what is wrong where it cannot be."""
    tokens = _sequences(net, T, L)
    asked = tokens[torch.arange(N_TRIED), torch.arange(N_TRIED) % L]
    truth = (tokens == asked[:, None]).sum(1)
    try:
        inputs = ask(tokens, asked)
        output = net.run(inputs)
    except Exception as error:
        return None, [f"it fails on what ask= gives ({_first_line(error)})"]
    try:
        positions = _rows_first(inputs, N_TRIED).shape[1]
        inside = _inside(lambda lists: ask(lists, asked[:2]), tokens[:2], T, "ask=")
        outside = torch.tensor([position for position in range(positions) if position not in inside])
        if not len(outside):
            raise _Unfit("no position of its input is outside of the list; a question must stand in the same input")
        tried = []
        for plain, words, reader in _readers(output, L, at, positions, read):
            logits = _checked(reader(output), (N_TRIED, L))
            accuracy = float((logits.argmax(-1) + 1 == truth).double().mean())
            tried += [(accuracy, words, reader)] if plain or accuracy > SOLVED else []
    except _Unfit as unfit:
        return None, [str(unfit)]
    accuracy, words, reader = max(tried, key=lambda way: round(way[0], 1))  # of equals the first
    others = ", ".join(map(str, outside.tolist()))
    how = f"lists at positions {int(inside[0])} to {int(inside[-1])}, question and answer at {others}", words

    def about_last(lists: Tensor) -> Any:
        return ask(lists, lists[:, -1])

    # causal: as a sequence, only the last position sees all others
    return Questions(about_last, reader, 0, positions, accuracy, True, how, ask, inside, outside), []


# --- inputs ----------------------------------------------------------------------------------------------------------


def _sequences(net: Net, T: int, L: int) -> Tensor:
    return task.sample("paper", N_TRIED, T=T, L=L, generator=0).to(next(net.module.parameters()).device)


def _encodings(net: Net, T: int, encode: Encode | None) -> Iterator[list[tuple[str, Encode]]]:
    """Ways to put a sequence into a model, in groups; the next group is for models that no way before suits."""
    if encode is not None:
        yield [(getattr(encode, "words", "what encode= gives"), encode)]
        return
    vocabulary = max((part.num_embeddings for part in net.parts.values() if isinstance(part, nn.Embedding)), default=0)
    start = getattr(getattr(net.module, "config", None), "bos_token_id", None)
    starts = dict.fromkeys(id_ for id_ in (T, vocabulary - 1, start) if isinstance(id_, int) and id_ >= T)
    ways: list[tuple[str, int, Encode]] = [("tokens 0..T-1 as they are", T, lambda tokens: tokens)]
    ways += [(f"tokens with the start token {id_} in front", id_ + 1, partial(_framed, start=id_)) for id_ in starts]
    ways.append(("tokens 1..T with the start token 0 in front", T + 1, partial(_framed, start=0, first=1)))
    ways.append(("tokens 1..T", T + 1, lambda tokens: tokens + 1))
    behind = f"tokens with the token {T} in front and {T + 1} behind"
    groups: list[list[tuple[str, int, Encode]]] = [ways, [(behind, T + 2, partial(_framed, start=T, stop=T + 1))]]
    fit = [[(words, way) for words, needed, way in group if not vocabulary or needed <= vocabulary] for group in groups]
    for group in fit:
        yield [layout for words, way in group for layout in ((words, way), _positions_first(words, way))]
    if "targets" in signature(net.module.forward).parameters:  # as in nanoGPT, which else answers at the end only
        yield [(f"{words}, with targets", partial(_with_targets, way)) for group in fit for words, way in group]


def _framed(tokens: Tensor, start: int, stop: int | None = None, first: int = 0) -> Tensor:
    led = nn.functional.pad(tokens + first, (1, 0), value=start)
    return led if stop is None else nn.functional.pad(led, (0, 1), value=stop)


def _positions_first(words: str, way: Encode) -> tuple[str, Encode]:
    return f"{words}, positions first", lambda tokens: way(tokens).transpose(0, 1)


def _with_targets(way: Encode, tokens: Tensor) -> tuple[Tensor, Tensor]:
    inputs: Tensor = way(tokens)
    return inputs, torch.zeros_like(inputs)


def _rows_first(inputs: Any, rows: int) -> Tensor:
    """The tensor that holds the tokens in what `encode` or `ask` returned, as [row, position, ...]."""
    values = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, tuple) else [inputs]
    tokens = next(value for value in values if isinstance(value, Tensor))
    return tokens if tokens.shape[0] == rows else tokens.transpose(0, 1)


def _inside(encode: Encode, tokens: Tensor, T: int, given: str) -> Tensor:
    """The position of the input at which each token of a sequence stands: where the input changes with it."""
    rows, L = tokens.shape
    plain = _rows_first(encode(tokens), rows)
    inside: list[int] = []
    for position in range(L):
        other = tokens.clone()
        other[:, position] = (other[:, position] + 1) % T
        changed = (_rows_first(encode(other), rows) != plain).reshape(*plain.shape[:2], -1).any(-1)
        at = changed[0].nonzero().flatten().tolist()
        if len(at) != 1 or not torch.equal(changed[0], changed[-1]):
            raise _Unfit(f"{given} must put each token at one position; token {position} is at {at or 'none'}")
        inside += at
    return torch.tensor(inside)


# --- answers ---------------------------------------------------------------------------------------------------------


def _readings(net: Net, T: int, L: int, words: str, encode: Encode, read: Read | None) -> Iterator[Reading]:
    tokens = _sequences(net, T, L)
    inputs = encode(tokens)
    positions = _rows_first(inputs, N_TRIED).shape[1]
    inside = _inside(encode, tokens[:2], T, "encode=")
    prefix = int(inside[0])
    if not torch.equal(inside, torch.arange(prefix, prefix + L)):
        raise _Unfit("encode= must put token l + 1 of a sequence at the position after token l")
    output = net.run(inputs)
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % T
    changed, few = net.run(encode(other)), net.run(encode(tokens[: L + 2]))
    for plain, how, reader in _readers(output, L, slice(prefix, prefix + L), positions, read):
        logits = _checked(reader(output), (N_TRIED, L, L))
        scale = logits.abs().amax().clamp_min(1e-30)
        causal = bool((reader(changed) - logits)[:, : L - 1].abs().amax() <= 1e-4 * scale)
        truth = task.running_count(tokens) if causal else task.histogram(tokens)
        accuracy = float((logits.argmax(-1) + 1 == truth).double().mean())
        if not plain and accuracy <= SOLVED:
            continue
        if (reader(few) - logits[: L + 2]).abs().amax() > 1e-3 * scale:
            if (reader(net.run(inputs)) - logits).abs().amax() > 1e-3 * scale:
                raise _Unfit("it answers the same input differently each time; switch off what is random (dropout)")
            raise _Unfit(f"on {words} its rows depend on each other; say with encode= what it reads")
        yield Reading(encode, reader, prefix, positions, accuracy, causal, (words, how))


def _readers(
    output: Any, L: int, at: int | slice, positions: int, read: Read | None
) -> Iterator[tuple[bool, str, Read]]:
    """Where logits of the counts may be: of a sequence (a slice of positions), or of one position that answers. The
    first tensor with enough classes, from 0 or 1 on, is plain; what is not is taken only where it counts."""
    if read is not None:
        yield True, "logits as read= says", read
        return
    shapes, plain = list[str](), True
    for point, here in _answers(output, at, positions):
        classes = _logits(point, positions, here, slice(None), output).shape[-1]
        where = "the output" if point.item is None else f"the output's {point.item!r}"
        where += f" ({point.layout})" if point.layout in LAYOUTS[1:] else ""
        where += f" at position {at}" if isinstance(at, int) and point.layout != AS_IT_IS else ""
        shapes.append(f"{where} has {classes}")
        for first in range(min(classes - L, MOST_CLASSES) + 1):
            words = f"logits of count 1 to {L} are classes {first} to {first + L - 1} of {where}"
            yield plain and first < 2, words, partial(_logits, point, positions, here, slice(first, first + L))
        plain = plain and classes < L
    if not shapes:
        raise _Unfit(f"its output has no tensor [row, {positions}, class]; say with read= where the logits are")
    if plain:
        made = f", or make them of a number: read=lambda y: -((y - torch.arange(1, {L + 1})) ** 2)"
        where = "where" + made * any(shape.endswith(" has 1") for shape in shapes)
        raise _Unfit(f"an answer needs logits of the counts 1..{L}, {', '.join(shapes)}; say with read= {where}")


def _answers(output: Any, at: int | slice, positions: int) -> Iterator[tuple[Point, int | slice]]:
    """Tensors that may hold logits, and the positions at which they answer. A start that the model adds by itself may
    have an answer, too."""
    if isinstance(at, int):
        for item, value in tensors(output):
            if value.ndim == 2 and len(value) == N_TRIED:
                yield Point("output", 0, item, AS_IT_IS), at  # one answer a row already
    for added in (0, 1):
        for item, layout in locations(output, N_TRIED, positions + added):
            here = at if isinstance(at, int) else slice(at.start + added, at.stop + added)
            yield Point("output", 0, item, layout), here


def _logits(point: Point, positions: int, at: int | slice, counted: slice, output: Any) -> Tensor:
    value = point.tensor(output)
    if point.layout == AS_IT_IS:
        return value[:, counted]
    return point.read(output, value.shape[0] // positions)[:, at][..., counted]


def _checked(logits: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(logits.shape) == shape:
        return logits
    wanted, got = (", ".join(map(str, sizes[1:])) for sizes in (shape, tuple(logits.shape)))
    where = f"for {shape[1]} positions and " if len(shape) == 3 else "for "
    raise _Unfit(
        f"an answer needs logits {where}the counts 1..{shape[-1]}, of shape [row, {wanted}], got [row, {got}]; "
        "say with read= where they are"
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
