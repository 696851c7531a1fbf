"""Attention patterns of models that have no module for them.

While `OpenedAttention` is entered, calls of `scaled_dot_product_attention` and of `softmax` over square matrices of
positions are counted, and can be read and written. A fused call is computed step by step only where somebody listens.
Names and shapes are those of TransformerLens: scores and pattern [row, head, query, key], v and z [row, position,
head, width]. A softmax written by hand gives scores and pattern alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

FUSED, SOFTMAX = "scaled_dot_product_attention", "softmax"
SCORES, PATTERN, VALUES, GATHERED = "attn.hook_attn_scores", "attn.hook_pattern", "attn.hook_v", "attn.hook_z"
PARTS = {FUSED: (SCORES, PATTERN, VALUES, GATHERED), SOFTMAX: (SCORES, PATTERN)}
Listener = Callable[..., Any]  # (value, hook=...) -> the new value, or None to leave it
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_NO_MODULE = nn.Identity()  # hooks get the module they are on
_FUSED = functional.scaled_dot_product_attention
_SOFTMAX = (torch.softmax, torch.Tensor.softmax, functional.softmax)


class OpenedAttention(TorchFunctionMode):
    """Counts calls, and gives their parts to whoever listens.

    Args:
        listeners: (function name, number of the call, part, function to be called with it).
        rows, positions: of the run, which tell square matrices of positions from other softmaxes.
    """

    def __init__(self, listeners: Sequence[tuple[str, int, str, Listener]], rows: int, positions: int) -> None:
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

    def _told(self, name: str, number: int, part: str, value: Tensor) -> Tensor:
        for wanted, call, which, function in self.listeners:
            if (wanted, call, which) == (name, number, part):
                changed = function(value, hook=_NO_MODULE)
                value = value if changed is None else changed
        return value

    def _next(self, name: str) -> tuple[int, bool]:
        number = self.calls[name]
        self.calls[name] += 1
        return number, any((wanted, call) == (name, number) for wanted, call, _, _ in self.listeners)

    def _softmax(self, func: Any, scores: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        number, heard = self._next(SOFTMAX)
        if not heard:
            return func(scores, *args, **kwargs)
        shape = scores.shape
        apart = scores if scores.ndim == 4 else scores.unflatten(0, (self.rows, -1))
        apart = self._told(SOFTMAX, number, SCORES, apart)
        pattern = func(apart.reshape(shape), *args, **kwargs)
        return self._told(SOFTMAX, number, PATTERN, pattern.reshape(apart.shape)).reshape(shape)

    def _fused(self, *args: Any, **kwargs: Any) -> Tensor:
        number, heard = self._next(FUSED)
        if not heard:
            return _FUSED(*args, **kwargs)
        given = dict(zip(ARGUMENTS, args, strict=False)) | kwargs
        query, key, value = (_with_heads(given[name], self.rows) for name in ARGUMENTS[:3])
        groups = query.shape[1] // key.shape[1]
        key, value = (one.repeat_interleave(groups, 1) for one in (key, value))
        scale = given.get("scale") or query.shape[-1] ** -0.5
        scores = query @ key.mT * scale + _bias(given, query, key, self.rows)
        scores = self._told(FUSED, number, SCORES, scores)
        pattern = self._told(FUSED, number, PATTERN, scores.softmax(-1))
        value = self._told(FUSED, number, VALUES, value.transpose(1, 2))
        gathered = self._told(FUSED, number, GATHERED, (pattern @ value.transpose(1, 2)).transpose(1, 2))
        out = gathered.transpose(1, 2)
        return out.reshape(*given["query"].shape[:-1], out.shape[-1])


def _with_heads(value: Tensor, rows: int) -> Tensor:
    """[row, head, position, width], of one head or of rows and heads in one axis too."""
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
