"""Reading and writing what passes through somebody's model, without editing it.

A `Point` is one call of one module in a run. Its output may be a tensor, a tuple or a ModelOutput, with rows or
positions first, heads apart or joined. Whoever reads or writes it sees [row, position, width]. The hooks are torch's
own forward hooks, and are taken off after each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from counting_interp.models.adapter.attention import PARTS, OpenedAttention

AS_IT_IS = "as it is"
INPUT = "input"  # the item of a point that is read where a module begins; it cannot be written
LAYOUTS = ("row, position", "position, row", "row x position")
Hook = Callable[..., Any]  # (value, hook=module) -> the new value, or None to leave it


@dataclass(frozen=True)
class Point:
    """Where a tensor with rows and positions passes.

    Attributes:
        name: of a module, as in `named_modules`; or `scaled_dot_product_attention` or `softmax`, which are none.
        call: which call of it in a run, counted from zero.
        item: where the tensor is in a tuple (an index) or a ModelOutput (a key); None where it is the output itself.
            Of what is no module, one of `attention.PARTS`.
        layout: one of LAYOUTS, which is read and written as [row, position, width]; or AS_IT_IS, which stays. What is
            no module has TransformerLens' shapes.
    """

    name: str
    call: int = 0
    item: Any = None
    layout: str = LAYOUTS[0]

    def __str__(self) -> str:
        item = "" if self.item is None else f"[{self.item!r}]"
        return f"{self.name}{item}{f', call {self.call + 1}' if self.call else ''}"

    def read(self, output: Any, rows: int) -> Tensor:
        """The tensor as [row, position, width]."""
        value: Tensor = output if self.item in (None, INPUT) else output[self.item]
        if self.layout == AS_IT_IS:
            return value
        if self.layout == LAYOUTS[1]:
            value = value.transpose(0, 1)
        elif self.layout == LAYOUTS[2]:
            value = value.unflatten(0, (rows, -1))
        return value.flatten(2)

    def write(self, output: Any, value: Tensor) -> Any:
        """The output with another tensor in it, of the shape that `read` gave."""
        before: Tensor = output if self.item is None else output[self.item]
        if self.layout == LAYOUTS[1]:
            after = value.transpose(0, 1).reshape(before.shape)
        else:
            after = value.reshape(before.shape)
        after = after.to(before.dtype)
        if self.item is None:
            return after
        if isinstance(output, Mapping):
            return type(output)(**{**output, self.item: after})
        items = [after if index == self.item else item for index, item in enumerate(output)]
        return output._replace(**{output._fields[self.item]: after}) if hasattr(output, "_replace") else tuple(items)


def locate(output: Any, rows: int, positions: int) -> tuple[Any, str] | None:
    """The first tensor of floats in a module's output that has rows and positions: its item and its layout."""
    if isinstance(output, Tensor):
        items: list[tuple[Any, Any]] = [(None, output)]
    elif isinstance(output, Mapping):
        items = sorted(output.items(), key=lambda pair: pair[0] != "logits")
    else:
        items = list(enumerate(output)) if isinstance(output, (tuple, list)) else []
    for item, value in items:
        if isinstance(value, Tensor) and value.is_floating_point():
            layout = _layout(tuple(value.shape), rows, positions)
            if layout is not None:
                return item, layout
    return None


def _layout(shape: tuple[int, ...], rows: int, positions: int) -> str | None:
    if len(shape) in (3, 4) and shape[:2] == (rows, positions):
        return LAYOUTS[0]
    if len(shape) in (3, 4) and shape[:2] == (positions, rows):
        return LAYOUTS[1]
    if len(shape) == 2 and shape[0] == rows * positions:
        return LAYOUTS[2]
    return None


def call(module: nn.Module, inputs: Any) -> Any:
    """Run a module on what `encode` or `ask` returned: a tensor, a tuple of arguments or a dictionary of them."""
    if isinstance(inputs, Mapping):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)


class Net:
    """A module with its parts by name, run on some rows with functions that read or write what passes its points."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parts: dict[str, nn.Module] = {name: part for name, part in module.named_modules() if name}
        self.parts |= getattr(module, "hook_dict", {})  # TransformerLens' names, which may be aliases

    def run(self, inputs: Any, hooks: Sequence[tuple[Point, Hook]] = (), size: tuple[int, int] = (0, 0)) -> Any:
        """The module's output. `size`: rows and positions of the run, which only hooks need."""
        rows, positions = size
        opened = [(point.name, point.call, point.item, function) for point, function in hooks if point.name in PARTS]
        with self._hooked([pair for pair in hooks if pair[0].name not in PARTS], rows):
            if not opened:
                return call(self.module, inputs)
            with OpenedAttention(opened, rows, positions):
                return call(self.module, inputs)

    def survey(self, inputs: Any, size: tuple[int, int], names: Iterable[str] = ()) -> tuple[list[Point], Any]:
        """Every point with rows and positions that a run passes, or those of the `names`, and the run's output."""
        rows, positions = size
        points: list[Point] = []
        calls: Counter[str] = Counter()
        parts = {name: self.parts[name] for name in names} or dict(self.module.named_modules())

        def look(name: str) -> Hook:
            def on_output(part: nn.Module, _: Any, output: Any) -> None:
                found_at = locate(output, rows, positions)
                if found_at is not None and name:
                    points.append(Point(name, calls[name], *found_at))
                calls[name] += 1

            return on_output

        with self._whole_layers():
            handles = [part.register_forward_hook(look(name)) for name, part in parts.items()]
            try:
                with OpenedAttention([], rows, positions) as opened:
                    output = call(self.module, inputs)
            finally:
                for handle in handles:
                    handle.remove()
        for name, parts_of in PARTS.items():
            points += [Point(name, number, parts_of[-1]) for number in range(opened.calls[name])]
        return points, output

    @contextmanager
    def _whole_layers(self) -> Iterator[None]:
        """torch has a fast path that computes a whole layer without calling its modules."""
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)

    @contextmanager
    def _hooked(self, hooks: Sequence[tuple[Point, Hook]], rows: int) -> Iterator[None]:
        wanted: dict[str, list[tuple[Point, Hook]]] = {}
        for point, function in hooks:
            wanted.setdefault(point.name, []).append((point, function))
        calls: Counter[str] = Counter()

        def listen(name: str) -> Hook:
            def on_output(part: nn.Module, _: Any, output: Any) -> Any:
                here = calls[name]
                calls[name] += 1
                for point, function in wanted[name]:
                    if point.call == here and point.item != INPUT:
                        output = _heard(point, function, part, output, rows)
                return output

            return on_output

        def begin(name: str) -> Hook:
            def on_input(part: nn.Module, given: Any) -> None:
                for point, function in wanted[name]:
                    if point.call == calls[name] and point.item == INPUT and given:
                        function(point.read(given[0], rows).clone(), hook=part)

            return on_input

        handles = []
        try:
            for name in wanted:
                handles.append(self.parts[name].register_forward_pre_hook(begin(name)))
                handles.append(self.parts[name].register_forward_hook(listen(name)))
            with self._whole_layers():
                yield
        finally:
            for handle in handles:
                handle.remove()


def _heard(point: Point, function: Hook, part: nn.Module, output: Any, rows: int) -> Any:
    """The output after a function has seen it. Points of a TransformerBridge may have a shape of their own outside."""
    shaped: Any = getattr(part, "hook_conversion", None) if point.layout == AS_IT_IS else None
    value = point.read(output if shaped is None else shaped.convert(output), rows)
    changed = function(value, hook=part)
    if changed is None:
        return output
    return point.write(output, changed) if shaped is None else shaped.revert(changed)
