"""A counting model for TransformerLens' tools: fields of its configuration, and its activation cache.

These models have no residual around a feed-forward layer, and the last one writes the logits. So every block has a
residual stream of its own, and the last stream is what the last feed-forward layer reads: `resid_mid` of the last
block. The cache decomposes that stream and attributes logits to its terms. With the hidden units held as open as they
were at a position, the map from the stream to a logit is linear.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformer_lens import ActivationCache
from transformer_lens.utilities import Slice

from counting_interp.models.config import CountingConfig

NO_UNEMBEDDING = (
    "counting models have no unembedding: the last feed-forward layer writes the logits itself, through "
    "blocks[-1].mlp.W_out; cache.logit_attrs takes its hidden units as they were in the run"
)


def check_patching(hooks: Iterable[tuple[Any, Any]]) -> None:
    """Refuse TransformerLens' patching on tokens without `$`, which would be off by one position.

    Raises:
        ValueError: one of the hooks comes from transformer_lens.patching.
    """
    for _, function in hooks:
        patch = getattr(function, "func", function)
        if getattr(patch, "__module__", "") == "transformer_lens.patching":
            raise ValueError(
                "TransformerLens' patching numbers positions by the tokens it is given, and the first position of this "
                "model is `$`: give it model.with_bos(tokens)"
            )


def lens_config(config: CountingConfig, device: torch.device) -> SimpleNamespace:
    """The fields of a configuration that ActivationCache and transformer_lens.patching read, by their names."""
    return SimpleNamespace(
        device=device,
        n_layers=config.n_layers,
        n_heads=config.n_heads,
        n_key_value_heads=None,
        attn_only=False,
        normalization_type="LN" if config.layer_norm else None,
        act_fn=config.activation,
        d_model=config.d,
        d_head=config.d_head,
        d_mlp=config.p,
        d_vocab=config.vocab,
        n_ctx=config.n_positions,
    )


class CountingCache(ActivationCache):
    """TransformerLens' cache for models whose stream ends before the last feed-forward layer."""

    def accumulated_resid(
        self,
        layer: int | None = None,
        incl_mid: bool = False,
        apply_ln: bool = False,
        pos_slice: Any = None,
        mlp_input: bool = False,
        return_labels: bool = False,
    ) -> Any:
        """The stream before and inside the blocks up to `layer`, by default up to the last feed-forward layer."""
        layer, mlp_input = self._stream(layer, mlp_input)
        return super().accumulated_resid(layer, incl_mid, apply_ln, pos_slice, mlp_input, return_labels)

    def decompose_resid(
        self,
        layer: int | None = None,
        mlp_input: bool = False,
        mode: str = "all",
        apply_ln: bool = False,
        pos_slice: Any = None,
        incl_embeds: bool = True,
        return_labels: bool = False,
    ) -> Any:
        """The terms [term, batch, pos, d_model] whose sum is the stream: the output of the block before (in the first
        block, the embeddings) and that of attention."""
        layer, mlp_input = self._stream(layer, mlp_input)
        if layer > 0:
            terms = {f"{layer - 1}_mlp_out": self["mlp_out", layer - 1]} if mode != "attn" else {}
        else:
            embeds = ["embed", "pos_embed"] if incl_embeds else []
            terms = {name: self[f"hook_{name}"] for name in embeds if f"hook_{name}" in self.cache_dict}
        if mlp_input and mode != "mlp":
            terms[f"{layer}_attn_out"] = self["attn_out", layer]
        if not terms:
            raise ValueError(f"nothing is left of the stream of layer {layer} with mode={mode!r}")
        positions = pos_slice if isinstance(pos_slice, Slice) else Slice(pos_slice)
        stack = torch.stack([positions.apply(term, dim=-2) for term in terms.values()])
        if apply_ln:
            stack = self.apply_ln_to_stack(stack, layer, pos_slice=positions, mlp_input=mlp_input)
        return (stack, list(terms)) if return_labels else stack

    def logit_attrs(
        self,
        residual_stack: Tensor,
        tokens: Any,
        incorrect_tokens: Any = None,
        pos_slice: Any = None,
        batch_slice: Any = None,
        has_batch_dim: bool = True,
    ) -> Tensor:
        """What each term of a stack adds to the logit of a class.

        A hidden unit passes on the share post / pre of what it reads: 0 or 1 for a ReLU. With the shares held at their
        values, logit = stream . W_in (share * W_out[:, class]) + biases, exactly. So the terms of `decompose_resid`
        and the biases add up to the logit. As in TransformerLens, the norm is applied to the stack here, and both
        slices have already been applied to the stack.

        Args:
            tokens: the class; class 0 is count 1, or count 0 in the published layout.
        """
        last = self.model.blocks[-1]
        pos, batch = (s if isinstance(s, Slice) else Slice(s) for s in (pos_slice, batch_slice))
        pre, post = self["pre", -1], self["post", -1]
        share = pos.apply(torch.where(pre == 0, 0, post / pre), dim=-2)
        share = batch.apply(share, dim=0) if has_batch_dim else share
        written = last.mlp.W_out.T[torch.as_tensor(tokens)]  # [..., d_mlp]
        if incorrect_tokens is not None:
            written = written - last.mlp.W_out.T[torch.as_tensor(incorrect_tokens)]
        if written.ndim == 2 and share.ndim == 3:  # a class for each sequence
            written = written[:, None]
        direction = (share * written) @ last.mlp.W_in.T
        layer = self.model.cfg.n_layers - 1
        stack = self.apply_ln_to_stack(residual_stack, layer, True, pos, batch, has_batch_dim)
        gain = last.ln2.w if self.model.config.layer_norm else 1
        return (stack * direction * gain).sum(-1)

    def _stream(self, layer: int | None, mlp_input: bool) -> tuple[int, bool]:
        n_layers = self.model.cfg.n_layers
        return (n_layers - 1, True) if layer in (None, -1, n_layers) else (int(layer or 0), mlp_input)
