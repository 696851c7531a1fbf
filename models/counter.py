"""What the verdict's measures ask of a model: its `Sizes`, its answers, and hook points by TransformerLens' names.

`CountingTransformer` is one such model; `models.adapter.Adapter` makes one of any other. A measure that is typed with
these two protocols works on both; one that is typed with `CountingConfig` and `CountingTransformer` rests on more.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from counting_interp.models.sizes import Sizes


@runtime_checkable
class Counter(Protocol):
    """A model that reads sequences [batch, pos] of tokens 0..T-1 and answers with logits [batch, pos, class]."""

    @property
    def config(self) -> Sizes: ...
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def device(self) -> torch.device: ...
    def run_with_hooks(self, tokens: Int[Tensor, "batch pos"], *, fwd_hooks: Any = ...) -> Any: ...
    def run_with_cache(self, tokens: Int[Tensor, "batch pos"], *, names_filter: Any = ...) -> Any: ...
    def predict(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]: ...
    def truth(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]: ...
