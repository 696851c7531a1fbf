"""Models that read a list, then a question about a token, and answer once.

The position that answers is not one that is counted: what listens are all positions behind the list (separators, the
question, the position that answers). Measures that know sequences only are served by asking each sequence about its
*last* token. Its answer stands for that position, and so do the mixers' outputs behind the list, side by side:

    [row, L, behind x width]: at position L - 1 what the question hears, elsewhere nothing, and nothing can be written.

Seen from the list instead, [row, L, width] are the mixers' outputs at the list's own positions. So one and the same
measure says what the question gathers, and what positions of the list have gathered before they are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from counting_interp.models import task
from counting_interp.models.adapter.points import Net, Point, locate
from counting_interp.models.adapter.reading import N_TRIED, rows_first

Ask = Callable[[Tensor, Tensor], Any]
Read = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class Questions:
    """How a model is asked; the fields that `reading.Reading` has too mean the same.

    Attributes:
        ask: from sequences [row, L] and tokens [row] to the module's input.
        read: from its output to logits [row, L] for the counts 1..L.
        inside: the position of the input at which each token of the list stands.
        behind: all positions behind the list.
    """

    ask: Ask
    read: Read
    inside: Tensor
    behind: Tensor
    positions: int
    accuracy: float
    how: tuple[str, ...]
    causal: bool = True  # as a sequence, only its last position hears all others
    prefix: int = 0

    def encode(self, tokens: Tensor) -> Any:
        """Each list with a question about its last token."""
        return self.ask(tokens, tokens[:, -1])

    def seen(self, value: Tensor, *, from_list: bool) -> Tensor:
        """A mixer's output [row, position, width] as positions of a sequence."""
        if from_list:
            return value[:, self.inside]
        heard = value[:, self.behind].flatten(1)
        return nn.functional.pad(heard[:, None], (0, 0, len(self.inside) - 1, 0))

    def written(self, value: Tensor, changed: Tensor, *, from_list: bool) -> Tensor:
        """The mixer's output after `changed` was made of what `seen` gave."""
        after = value.clone()
        if from_list:
            after[:, self.inside] = changed
        else:
            after[:, self.behind] = changed[:, -1].unflatten(1, (len(self.behind), -1))
        return after


def find_questions(
    net: Net, T: int, L: int, *, ask: Ask, at: int, read: Read | None
) -> tuple[Questions | None, list[str]]:
    """How the model is asked, and what is wrong where it cannot be."""
    tokens = task.sample("paper", N_TRIED, T=T, L=L, generator=0).to(next(net.module.parameters()).device)
    asked = tokens[torch.arange(N_TRIED), torch.arange(N_TRIED) % L]
    try:
        inputs = ask(tokens, asked)
        output = net.run(inputs)
    except Exception as error:
        what = str(error).splitlines()[0] if str(error) else ""
        return None, [f"it fails on what ask= gives ({type(error).__name__}: {what})"]
    positions = rows_first(inputs, N_TRIED).shape[1]
    inside, wrong = _inside(ask, tokens[:2], asked[:2], T)
    if inside is None:
        return None, [wrong]
    truth = (tokens == asked[:, None]).sum(1)
    best: tuple[float, str, Read] | None = None
    for words, reader in _readers(output, L, positions, at, read):
        logits = reader(output)
        if tuple(logits.shape) != (N_TRIED, L):
            return None, [f"an answer needs logits of shape [row, {L}], got {list(logits.shape)}; say with read= where"]
        accuracy = float((logits.argmax(-1) + 1 == truth).double().mean())
        if best is None or accuracy > best[0] + 0.02:
            best = accuracy, words, reader
    if best is None:
        return None, [f"its output has no logits for the counts 1..{L} at position {at}; say with read= where they are"]
    behind = torch.arange(int(inside.max()) + 1, positions)
    if not len(behind):
        return None, ["no position comes behind the list, so nothing can be asked about it there"]
    how = (
        f"lists at positions {int(inside[0])} to {int(inside[-1])} of {positions}, "
        f"the question and the answer at {int(behind[0])} to {positions - 1}",
        best[1],
    )
    return Questions(ask, best[2], inside, behind, positions, best[0], how), []


def _inside(ask: Ask, tokens: Tensor, asked: Tensor, T: int) -> tuple[Tensor | None, str]:
    plain = rows_first(ask(tokens, asked), len(tokens))
    inside = []
    for position in range(tokens.shape[1]):
        other = tokens.clone()
        other[:, position] = (other[:, position] + 1) % T
        changed = (rows_first(ask(other, asked), len(tokens)) != plain).reshape(*plain.shape[:2], -1).any(-1)
        at = changed[0].nonzero().flatten().tolist()
        if len(at) != 1:
            return None, f"ask= must put each token of a list at one position; token {position} is at {at or 'none'}"
        inside.append(at[0])
    return torch.tensor(inside), ""


def _readers(output: Any, L: int, positions: int, at: int, read: Read | None) -> Iterator[tuple[str, Read]]:
    if read is not None:
        yield "logits as read= says", read
        return
    once = output.get("logits") if isinstance(output, Mapping) else output
    if isinstance(once, Tensor) and once.ndim == 2 and len(once) == N_TRIED:  # one answer a row already
        where = "the output"

        def pick(out: Any) -> Tensor:
            logits: Tensor = out["logits"] if isinstance(out, Mapping) else out
            return logits

    else:
        located = locate(output, N_TRIED, positions)
        if located is None:
            return
        point = Point("output", 0, *located)
        where = f"position {at} of the output" + ("" if point.item is None else f"'s {point.item!r}")

        def pick(out: Any) -> Tensor:
            value: Tensor = out if point.item is None else out[point.item]
            return point.read(out, value.shape[0] // positions)[:, at]

    classes = pick(output).shape[-1]
    for first in (0, 1):
        if classes >= first + L:
            yield (
                f"logits of count 1 to {L} are classes {first} to {first + L - 1} at {where}",
                partial(_counted, pick, slice(first, first + L)),
            )


def _counted(pick: Read, counted: slice, output: Any) -> Tensor:
    return pick(output)[:, counted]
