"""What exists: the histogram task, the counting transformers, and where their weights come from.

Axes, named the same in every signature, comment and einops pattern of the project:

    batch    sequences
    pos      positions of a sequence: L, or L + 1 inside `bos` models, which prepend `$`
    query    the position that attends; key: the position that is attended to
    head     attention heads; one in the paper's blocks
    d_model  the embedding dimension d
    d_mlp    the hidden units p of a feed-forward layer
    vocab    tokens 0..T-1, and in `bos` models `$` = T
    class    output logits
    count    the true counts 1..L
    pair     ordered pairs of distinct tokens
"""

from __future__ import annotations

if __name__ != "counting_interp.models":
    raise ImportError("this folder is a part of counting_interp: write `import counting_interp.models`")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counting_interp.models import task
    from counting_interp.models.adapter import Adapter
    from counting_interp.models.config import CountingConfig
    from counting_interp.models.transformer import CountingTransformer

_HOMES = {
    "Adapter": "counting_interp.models.adapter",
    "CountingConfig": "counting_interp.models.config",
    "CountingTransformer": "counting_interp.models.transformer",
}
_MODULES = ("config", "task", "transformer")

__all__ = ["Adapter", "CountingConfig", "CountingTransformer", "task"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"counting_interp.models.{name}")
    raise AttributeError(f"module 'counting_interp.models' has no attribute {name!r}")
