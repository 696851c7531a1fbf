"""The few configuration fields that TransformerLens' tools read, under the names they read them by."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from models.config import CountingConfig


@dataclass(frozen=True)
class LensConfig:
    """A view of a CountingConfig for ActivationCache and transformer_lens.patching."""

    config: CountingConfig
    device: torch.device
    n_heads: int = 1
    n_key_value_heads: int | None = None
    attn_only: bool = False
    normalization_type: str | None = None

    @property
    def n_layers(self) -> int:
        return self.config.n_layers

    @property
    def d_model(self) -> int:
        return self.config.d

    @property
    def d_head(self) -> int:
        return self.config.d

    @property
    def d_mlp(self) -> int:
        return self.config.p

    @property
    def d_vocab(self) -> int:
        return self.config.vocab

    @property
    def n_ctx(self) -> int:
        return self.config.n_positions
