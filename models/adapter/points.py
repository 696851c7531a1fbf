"""Reading and writing activations of any model, without editing it.

A `Point` is one call of one module in a run. Its output may be a tensor, a tuple, a dictionary or a dataclass, with
rows or positions first, heads apart or joined. It is read and written as [row, position, width]. The hooks are torch's
forward hooks, and are removed after each run.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

AS_IT_IS = "as it is"
INPUT = "input"  # the item of a point that is read where a module begins; it cannot be written
LAYOUTS = ("row, position", "position, row", "row x position", "row, width, position")
Hook = Callable[..., Any]  # (value, hook=module) -> the new value, or None to leave it
FUSED, SOFTMAX = "scaled_dot_product_attention", "softmax"
QUERIES, SCORES, PATTERN = "attn.hook_q", "attn.hook_attn_scores", "attn.hook_pattern"
VALUES, GATHERED = "attn.hook_v", "attn.hook_z"
PARTS = {FUSED: (QUERIES, SCORES, PATTERN, VALUES, GATHERED), SOFTMAX: (SCORES, PATTERN)}
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_NO_MODULE = nn.Identity()  # hooks get the module they are on
_FUSED = functional.scaled_dot_product_attention
_SOFTMAX = (torch.softmax, torch.Tensor.softmax, functional.softmax)


@dataclass(frozen=True)
class Point:
    """Where a tensor with rows and positions passes.

    Attributes:
        name: of a module, as in `named_modules`; or `scaled_dot_product_attention` or `softmax`, which are none.
        call: which call of it in a run, counted from zero.
        item: where the tensor is in a tuple (an index), a dictionary (a key) or a dataclass (a name); None where it is
            the output itself. Of what is no module, one of PARTS.
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
        value = self.tensor(output)
        if self.layout == AS_IT_IS:
            return value
        if self.layout == LAYOUTS[2]:
            value = value.unflatten(0, (rows, -1))
        return self._transposed(value).flatten(2)

    def _transposed(self, value: Tensor) -> Tensor:
        """Between the layout and [row, position, ...]: the same step both ways."""
        swapped = {LAYOUTS[1]: (0, 1), LAYOUTS[3]: (1, 2)}.get(self.layout)
        return value if swapped is None else value.transpose(*swapped)

    def tensor(self, output: Any) -> Tensor:
        """The tensor in its own shape."""
        value: Tensor = output if self.item in (None, INPUT) else dict(tensors(output))[self.item]
        return value

    def write(self, output: Any, value: Tensor) -> Any:
        """The output with another tensor in it, of the shape that `read` gave."""
        before = self.tensor(output)
        after = self._transposed(value).reshape(before.shape).to(before.dtype)
        if self.item is None:
            return after
        if isinstance(output, Mapping):
            return type(output)(**{**output, self.item: after})
        if dataclasses.is_dataclass(output):
            return dataclasses.replace(output, **{self.item: after})  # type: ignore[type-var]
        items = [after if index == self.item else item for index, item in enumerate(output)]
        return output._replace(**{output._fields[self.item]: after}) if hasattr(output, "_replace") else tuple(items)


def locations(output: Any, rows: int, positions: int) -> Iterator[tuple[Any, str]]:
    """Item and layout of every tensor of floats in a module's output that has rows and positions, logits first."""
    for item, value in tensors(output):
        yield from ((item, layout) for layout in _layouts(tuple(value.shape), rows, positions))


def tensors(output: Any) -> list[tuple[Any, Tensor]]:
    """The tensors of floats in a module's output, by their items; what is named logits comes first."""
    if isinstance(output, (tuple, list)):
        items: list[tuple[Any, Any]] = list(enumerate(output))
    elif isinstance(output, Mapping) or dataclasses.is_dataclass(output):
        named = output if isinstance(output, Mapping) else vars(output)
        items = sorted(named.items(), key=lambda pair: pair[0] != "logits")
    else:
        items = [(None, output)]
    return [(item, value) for item, value in items if isinstance(value, Tensor) and value.is_floating_point()]


def _layouts(shape: tuple[int, ...], rows: int, positions: int) -> list[str]:
    starts = {LAYOUTS[0]: (rows, positions), LAYOUTS[1]: (positions, rows)}
    layouts = [layout for layout, start in starts.items() if len(shape) in (3, 4) and shape[:2] == start]
    if len(shape) == 2 and shape[0] == rows * positions:
        layouts.append(LAYOUTS[2])
    if len(shape) == 3 and shape[::2] == (rows, positions):
        layouts.append(LAYOUTS[3])
    return layouts


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
        in_functions = [(point.name, point.call, point.item, hook) for point, hook in hooks if point.name in PARTS]
        wanted: dict[str, list[tuple[Point, Hook]]] = {}
        for point, hook in hooks:
            if point.name not in PARTS:
                wanted.setdefault(point.name, []).append((point, hook))

        def on_input(name: str, number: int, module: nn.Module, value: Any) -> None:
            for point, hook in wanted[name]:
                if point.call == number and point.item == INPUT:
                    hook(point.read(value, rows).clone(), hook=module)

        def on_output(name: str, number: int, module: nn.Module, output: Any) -> Any:
            for point, hook in wanted[name]:
                if point.call == number and point.item != INPUT:
                    output = _hooked_output(point, hook, module, output, rows)
            return output

        opened = OpenedAttention(in_functions, rows, positions) if in_functions else nullcontext()
        with self._attached(wanted, on_input, on_output), opened:
            return call(self.module, inputs)

    def survey(self, inputs: Any, size: tuple[int, int], names: Iterable[str] = ()) -> list[Point]:
        """Every point with rows and positions that a run passes, or those of the `names`."""
        points: list[Point] = []

        def look(name: str, number: int, module: nn.Module, output: Any) -> None:
            location = next(locations(output, *size), None)
            if location is not None:
                points.append(Point(name, number, *location))

        names = list(names) or [name for name, _ in self.module.named_modules() if name]
        with self._attached(names, lambda *_: None, look), OpenedAttention([], *size) as opened:
            call(self.module, inputs)
        for name, in_call in PARTS.items():
            points += [Point(name, number, in_call[-1]) for number in range(opened.calls[name])]
        return points

    @contextmanager
    def _attached(self, names: Iterable[str], on_input: Hook, on_output: Hook) -> Iterator[None]:
        """Both functions get (name, number of the call, module, value); an output that is returned replaces it."""
        calls: Counter[str] = Counter()

        def before(name: str, module: nn.Module, given: Any) -> None:
            if given:
                on_input(name, calls[name], module, given[0])

        def after(name: str, module: nn.Module, _: Any, output: Any) -> Any:
            calls[name] += 1
            return on_output(name, calls[name] - 1, module, output)

        handles = []
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # it computes a whole layer without calling its modules
        try:
            for name in names:
                handles.append(self.parts[name].register_forward_pre_hook(partial(before, name)))
                handles.append(self.parts[name].register_forward_hook(partial(after, name)))
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)
            for handle in handles:
                handle.remove()


def _hooked_output(point: Point, function: Hook, part: nn.Module, output: Any, rows: int) -> Any:
    """The output after a function has seen it. Points of a TransformerBridge may have a shape of their own outside."""
    shaped: Any = getattr(part, "hook_conversion", None) if point.layout == AS_IT_IS else None
    value = point.read(output if shaped is None else shaped.convert(output), rows)
    changed = function(value, hook=part)
    if changed is None:
        return output
    return point.write(output, changed) if shaped is None else shaped.revert(changed)


# --- attention without a module --------------------------------------------------------------------------------------


class OpenedAttention(TorchFunctionMode):
    """Attention without a module: calls of `scaled_dot_product_attention`, and of `softmax` over positions.

    While it is entered, calls are counted, and their parts can be read and written. A fused call is computed step by
    step only where one of its parts is wanted. Names and shapes are TransformerLens': scores and pattern [row, head,
    query, key]; q, v and z [row, position, head, width]. A softmax written by hand has scores and pattern alone.

    Args:
        listeners: (function name, number of the call, part, function to be called with it).
        rows, positions: of the run, which tell square matrices of positions from other softmaxes.
    """

    def __init__(self, listeners: Sequence[tuple[str, int, str, Hook]], rows: int, positions: int) -> None:
        super().__init__()
        self.listeners, self.rows, self.positions = listeners, rows, positions
        self.calls: Counter[str] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _FUSED:
            return self._fused(*args, **kwargs)
        if func in _SOFTMAX and self._square(args[0] if args else kwargs.get("input"), args, kwargs):
            return self._softmax(func, *args, **kwargs)
        if func is functional.multi_head_attention_forward:
            with self._inside_torch():
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    @contextmanager
    def _inside_torch(self) -> Iterator[None]:
        """torch's own attention calls these by the names in its module, where no mode sees them."""
        before = functional.scaled_dot_product_attention, functional.softmax
        functional.scaled_dot_product_attention = self._fused

        def softmax(scores: Tensor, *args: Any, **kwargs: Any) -> Any:
            square = self._square(scores, (scores, *args), kwargs)
            return self._softmax(before[1], scores, *args, **kwargs) if square else before[1](scores, *args, **kwargs)

        functional.softmax = softmax  # type: ignore[assignment]
        try:
            yield
        finally:
            functional.scaled_dot_product_attention, functional.softmax = before

    def _square(self, scores: Any, args: Any, kwargs: Any) -> bool:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if not isinstance(scores, Tensor) or scores.ndim not in (3, 4) or dim not in (-1, scores.ndim - 1):
            return False
        return scores.shape[-2:] == (self.positions, self.positions) and scores.shape[0] % self.rows == 0

    def _passed(self, name: str, number: int, part: str, value: Tensor) -> Tensor:
        for wanted, call, which, function in self.listeners:
            if (wanted, call, which) == (name, number, part):
                changed = function(value, hook=_NO_MODULE)
                value = value if changed is None else changed
        return value

    def _next(self, name: str) -> tuple[int, bool]:
        """The number of this call, and whether one of its parts is wanted."""
        number = self.calls[name]
        self.calls[name] += 1
        return number, any((wanted, call) == (name, number) for wanted, call, _, _ in self.listeners)

    def _softmax(self, func: Any, scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        number, wanted = self._next(SOFTMAX)
        if not wanted:
            return func(scores, *args, **kwargs)
        shape = scores.shape
        by_head = self._passed(SOFTMAX, number, SCORES, _with_heads(scores, self.rows))
        pattern = func(by_head.reshape(shape), *args, **kwargs)
        return self._passed(SOFTMAX, number, PATTERN, pattern.reshape(by_head.shape)).reshape(shape)

    def _fused(self, *args: Any, **kwargs: Any) -> Tensor:
        number, wanted = self._next(FUSED)
        if not wanted:
            return _FUSED(*args, **kwargs)
        given = dict(zip(ARGUMENTS, args, strict=False)) | kwargs
        query, key, value = (_with_heads(given[name], self.rows) for name in ARGUMENTS[:3])
        groups = query.shape[1] // key.shape[1]
        key, value = (shared.repeat_interleave(groups, 1) for shared in (key, value))
        scale = given.get("scale") or query.shape[-1] ** -0.5
        query = self._passed(FUSED, number, QUERIES, query.transpose(1, 2)).transpose(1, 2)
        scores = query @ key.mT * scale + _bias(given, query, key, self.rows)
        scores = self._passed(FUSED, number, SCORES, scores)
        pattern = self._passed(FUSED, number, PATTERN, scores.softmax(-1))
        value = self._passed(FUSED, number, VALUES, value.transpose(1, 2))
        gathered = self._passed(FUSED, number, GATHERED, (pattern @ value.transpose(1, 2)).transpose(1, 2))
        out = gathered.transpose(1, 2)
        return out.reshape(*given["query"].shape[:-1], out.shape[-1])


def _with_heads(value: Tensor, rows: int) -> Tensor:
    """As [row, head, position, width], also where rows and heads share an axis."""
    return value if value.ndim == 4 else value.unflatten(0, (rows, -1))


def _bias(given: dict[str, Any], query: Tensor, key: Tensor, rows: int) -> Tensor | float:
    mask = given.get("attn_mask")
    if given.get("is_causal"):
        mask = query.new_ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    if mask is None:
        return 0.0
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -torch.inf)
    return mask.unflatten(0, (rows, -1)) if mask.ndim == 3 and mask.shape[0] % rows == 0 else mask
