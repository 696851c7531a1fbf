"""A Llama of the library transformers whose attention outputs, queries and patterns can be read and patched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, repeat_kv


@dataclass
class Write:
    """A patch for one block at the positions of `at`: attention outputs, queries, or rows of the pattern."""

    at: Bool[Tensor, "row pos"]
    outputs: Float[Tensor, "row pos d"] | None = None
    queries: Float[Tensor, "row pos heads_d"] | None = None
    patterns: Float[Tensor, "row pos head pos"] | None = None


@dataclass
class Read:
    """The activations of one block."""

    outputs: Float[Tensor, "row pos d"]
    queries: Float[Tensor, "row pos heads_d"]
    patterns: Float[Tensor, "row pos head key"]
    keys: Float[Tensor, "row kv_head key width"]
    values: Float[Tensor, "row kv_head key width"]


Past = Sequence[tuple[Tensor, Tensor]]  # for each block: keys and values of the positions before those that are run


class Opened:
    """The blocks of a LlamaForCausalLM, with three points to read and patch in each.

    With a `past`, only the positions after it are run. In a causal model a patch there does not change the past.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.blocks = model, list(model.model.layers)

    def embed(self, tokens: Int[Tensor, "row pos"]) -> Float[Tensor, "row pos d"]:
        return self.model.model.embed_tokens(tokens)

    def logits(self, stream: Float[Tensor, "row pos d"]) -> Float[Tensor, "row pos vocab"]:
        return self.model.lm_head(self.model.model.norm(stream))

    def block(
        self, number: int, stream: Float[Tensor, "row pos d"], write: Write | None = None, past: Past | None = None
    ) -> tuple[Float[Tensor, "row pos d"], Read]:
        """Runs one block, written out so that every activation can be read and patched.

        Returns:
            The residual stream after the block, and its activations.
        """
        layer = self.blocks[number]
        attention, normed = layer.self_attn, layer.input_layernorm(stream)
        queries = attention.q_proj(normed)
        if write is not None and write.queries is not None:
            queries = torch.where(write.at[..., None], write.queries, queries)
        width, groups = attention.head_dim, attention.num_key_value_groups

        def heads(x: Tensor) -> Tensor:
            return x.unflatten(-1, (-1, width)).transpose(1, 2)

        known = past[number][0].shape[2] if past else 0
        rotation = self.model.model.rotary_emb(stream, known + torch.arange(stream.shape[1])[None])
        query, keys = apply_rotary_pos_emb(heads(queries), heads(attention.k_proj(normed)), *rotation)
        values = heads(attention.v_proj(normed))
        if past:
            keys, values = (torch.cat(both, 2) for both in zip(past[number], (keys, values), strict=True))
        key, value = repeat_kv(keys, groups), repeat_kv(values, groups)
        hidden = torch.ones(stream.shape[1], key.shape[2], dtype=torch.bool).triu(known + 1)
        scores = (query @ key.mT * width**-0.5).masked_fill(hidden, -torch.inf)
        patterns = scores.softmax(-1).transpose(1, 2)  # [row, pos, head, key]
        if write is not None and write.patterns is not None:
            patterns = torch.where(write.at[..., None, None], write.patterns, patterns)
        outputs = attention.o_proj((patterns.transpose(1, 2) @ value).transpose(1, 2).flatten(2))
        if write is not None and write.outputs is not None:
            outputs = torch.where(write.at[..., None], write.outputs, outputs)
        stream = stream + outputs
        read = Read(outputs, queries, patterns, keys, values)
        return stream + layer.mlp(layer.post_attention_layernorm(stream)), read

    def run(
        self, tokens: Int[Tensor, "row pos"], writes: Mapping[int, Write] | None = None, past: Past | None = None
    ) -> tuple[Float[Tensor, "row pos vocab"], list[Read]]:
        stream, reads = self.embed(tokens), list[Read]()
        for number in range(len(self.blocks)):
            stream, read = self.block(number, stream, (writes or {}).get(number), past)
            reads.append(read)
        return self.logits(stream), reads
