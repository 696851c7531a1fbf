"""The paper's equations, word for word, in numpy: one sequence, one position at a time, no vectorisation.

Written from Section 2 of the paper and the description of the two-layer model in its appendix, not from our code; then
what a textbook's transformer block has beyond them: heads, values, norms, positions, a causal mask.
"""

from __future__ import annotations

from math import erf, sqrt

import numpy as np


def literal_logits(tokens: list[int], weights: dict[str, np.ndarray], config) -> np.ndarray:
    """Logits [pos, class] of one sequence."""
    sequence = ([config.T] if config.mixing == "bos" else []) + list(tokens)
    embedded = [weights["embed.W_E"][token] for token in sequence]
    if config.positions:
        embedded = [x + weights["pos_embed.W_pos"][position] for position, x in enumerate(embedded)]
    for layer in range(config.n_layers):
        block = {name.removeprefix(f"blocks.{layer}."): w for name, w in weights.items() if f"blocks.{layer}." in name}
        read = [norm(x, "ln1", block) for x in embedded]
        mixed = list(embedded)
        for head in range(config.n_heads):
            values = [x @ block["attn.W_V"][head] @ block["attn.W_O"][head] if config.values else x for x in read]
            for here, row in enumerate(mixing_rows(read, block, config, head)):
                mixed[here] = mixed[here] + sum(a * value for a, value in zip(row, values, strict=True))
        embedded = [feed_forward(norm(x, "ln2", block), block, config) for x in mixed]
    return np.stack(embedded[-config.L :])


def mixing_rows(x: list[np.ndarray], block: dict[str, np.ndarray], config, head: int) -> list[list[float]]:
    names = ("attn.A",) if config.mixing == "lin" else ("attn.W_Q", "attn.W_K")
    W = [block[name][head] if config.n_heads > 1 else block[name] for name in names]
    rows = []
    for here in range(len(x)):
        seen = range(here + 1) if config.causal else range(len(x))
        if config.mixing == "lin":
            row = [float(W[0][here, there]) for there in seen]
        else:
            scale = np.sqrt(config.d / config.n_heads)
            row = [float((x[here] @ W[0]) @ (x[there] @ W[1])) / scale for there in seen]
        if config.softmax:
            total = sum(np.exp(score) for score in row)
            row = [np.exp(score) / total for score in row]
        rows.append(row + [0.0] * (len(x) - len(row)))
    return rows


def feed_forward(mixed: np.ndarray, block: dict[str, np.ndarray], config) -> np.ndarray:
    pre = mixed @ block["mlp.W_in"] + block["mlp.b_in"]
    gelu = np.array([z * (1 + erf(z / sqrt(2))) / 2 for z in pre])
    hidden = gelu if config.activation == "gelu" else np.maximum(0.0, pre)
    return hidden @ block["mlp.W_out"] + block["mlp.b_out"]


def norm(x: np.ndarray, name: str, block: dict[str, np.ndarray]) -> np.ndarray:
    if f"{name}.w" not in block:
        return x
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * block[f"{name}.w"] + block[f"{name}.b"]
