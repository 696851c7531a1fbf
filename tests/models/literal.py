"""The paper's equations, word for word, in numpy: one sequence, one position at a time, no vectorisation.

Written from Section 2 of the paper and the description of the two-layer model in its appendix, not from our code.
"""

from __future__ import annotations

import numpy as np


def literal_logits(tokens: list[int], weights: dict[str, np.ndarray], config) -> np.ndarray:
    """Logits [pos, class] of one sequence."""
    sequence = ([config.T] if config.mixing == "bos" else []) + list(tokens)
    embedded = [weights["embed.W_E"][token] for token in sequence]
    for layer in range(config.n_layers):
        block = {name.removeprefix(f"blocks.{layer}."): w for name, w in weights.items() if f"blocks.{layer}." in name}
        embedded = [
            feed_forward(embedded[here] + sum(a * x for a, x in zip(row, embedded, strict=True)), block)
            for here, row in enumerate(mixing_rows(embedded, block, config))
        ]
    return np.stack(embedded[-config.L :])


def mixing_rows(x: list[np.ndarray], block: dict[str, np.ndarray], config) -> list[list[float]]:
    rows = []
    for here in range(len(x)):
        if config.mixing == "lin":
            row = [float(block["attn.A"][here, there]) for there in range(len(x))]
        else:
            query = x[here] @ block["attn.W_Q"]
            row = [float(query @ (x[there] @ block["attn.W_K"])) / np.sqrt(config.d) for there in range(len(x))]
        if config.softmax:
            total = sum(np.exp(score) for score in row)
            row = [np.exp(score) / total for score in row]
        rows.append(row)
    return rows


def feed_forward(mixed: np.ndarray, block: dict[str, np.ndarray]) -> np.ndarray:
    hidden = np.maximum(0.0, mixed @ block["mlp.W_in"] + block["mlp.b_in"])
    return hidden @ block["mlp.W_out"] + block["mlp.b_out"]
