"""A Llama of transformers, opened: attention outputs, queries and patterns of every block can be read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, repeat_kv


@dataclass
class Write:
    """What is written into one block, at the positions of `at`: attention outputs, queries, or rows of the pattern."""

    at: Bool[Tensor, "row pos"]
    outputs: Float[Tensor, "row pos d"] | None = None
    queries: Float[Tensor, "row pos heads_d"] | None = None
    patterns: Float[Tensor, "row pos head pos"] | None = None


@dataclass
class Read:
    """What passed through one block."""

    outputs: Float[Tensor, "row pos d"]
    queries: Float[Tensor, "row pos heads_d"]
    patterns: Float[Tensor, "row pos head pos"]


class Opened:
    """The blocks of a LlamaForCausalLM, one after the other, with three points to read and write in each."""

    def __init__(self, model: Any) -> None:
        self.model, self.blocks = model, list(model.model.layers)

    def embed(self, tokens: Int[Tensor, "row pos"]) -> Float[Tensor, "row pos d"]:
        return self.model.model.embed_tokens(tokens)

    def logits(self, stream: Float[Tensor, "row pos d"]) -> Float[Tensor, "row pos vocab"]:
        return self.model.lm_head(self.model.model.norm(stream))

    def block(
        self, number: int, stream: Float[Tensor, "row pos d"], write: Write | None = None
    ) -> tuple[Float[Tensor, "row pos d"], Read]:
        """One block; written as its definition, so that every part can be reached."""
        layer = self.blocks[number]
        attention, normed = layer.self_attn, layer.input_layernorm(stream)
        queries = attention.q_proj(normed)
        if write is not None and write.queries is not None:
            queries = torch.where(write.at[..., None], write.queries, queries)
        width, groups = attention.head_dim, attention.num_key_value_groups

        def heads(x: Tensor) -> Tensor:
            return x.unflatten(-1, (-1, width)).transpose(1, 2)

        places = torch.arange(stream.shape[1])[None]
        turned = self.model.model.rotary_emb(stream, places)
        query, key = apply_rotary_pos_emb(heads(queries), heads(attention.k_proj(normed)), *turned)
        key, value = repeat_kv(key, groups), repeat_kv(heads(attention.v_proj(normed)), groups)
        hidden = torch.ones(stream.shape[1], stream.shape[1], dtype=torch.bool).triu(1)
        scores = (query @ key.mT * width**-0.5).masked_fill(hidden, -torch.inf)
        patterns = scores.softmax(-1).transpose(1, 2)  # [row, pos, head, pos]
        if write is not None and write.patterns is not None:
            patterns = torch.where(write.at[..., None, None], write.patterns, patterns)
        outputs = attention.o_proj((patterns.transpose(1, 2) @ value).transpose(1, 2).flatten(2))
        if write is not None and write.outputs is not None:
            outputs = torch.where(write.at[..., None], write.outputs, outputs)
        stream = stream + outputs
        return stream + layer.mlp(layer.post_attention_layernorm(stream)), Read(outputs, queries, patterns)

    def run(
        self, tokens: Int[Tensor, "row pos"], writes: Mapping[int, Write] | None = None
    ) -> tuple[Float[Tensor, "row pos vocab"], list[Read]]:
        stream, reads = self.embed(tokens), list[Read]()
        for number in range(len(self.blocks)):
            stream, read = self.block(number, stream, (writes or {}).get(number))
            reads.append(read)
        return self.logits(stream), reads
