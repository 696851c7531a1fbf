"""Worths and transplants from the weights alone: numpy in float64, one sequence at a time, as docs/verdict.md has them.

No hook, nothing of `probes` and no tensor of the model's own forward pass is used: what the tests find equal was
computed twice. Only the paper's blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

FAINT, LOUDEST = 0.02, 20.0


class Weights:
    """The paper's blocks, read from a state dict."""

    def __init__(self, model):
        config = model.config
        self.T, self.d, self.softmax, self.bos = config.T, config.d, config.softmax, config.mixing == "bos"
        self.lin = config.mixing == "lin"
        self.n_layers = config.n_layers
        self.tensors = {name: value.detach().cpu().double().numpy() for name, value in model.state_dict().items()}

    def run(
        self,
        tokens: Sequence[int],
        change: Callable = lambda block, written: written,
        ask: Callable = lambda block, queries: queries,
    ):
        """Logits by position, and what each mixer writes.

        `change(block, written)` replaces what a block writes, and `ask(block, queries)` its queries.
        """
        names = [self.T, *tokens] if self.bos else list(tokens)
        x, outputs = self.tensors["embed.W_E"][names], []
        for block in range(self.n_layers):
            part = {name: self.tensors.get(f"blocks.{block}.{name}") for name in ("attn.A", "attn.W_Q", "attn.W_K")}
            if part["attn.A"] is not None:
                pattern = part["attn.A"]
            else:
                pattern = ask(block, x @ part["attn.W_Q"]) @ (x @ part["attn.W_K"]).T / np.sqrt(self.d)
            if self.softmax:
                pattern = np.exp(pattern - pattern.max(-1, keepdims=True))
                pattern = pattern / pattern.sum(-1, keepdims=True)
            written = change(block, pattern @ x)
            outputs.append(written)
            W_in, b_in, W_out, b_out = (
                self.tensors[f"blocks.{block}.mlp.{name}"] for name in ("W_in", "b_in", "W_out", "b_out")
            )
            x = np.maximum((x + written) @ W_in + b_in, 0) @ W_out + b_out
        start = int(self.bos)
        return x[start:], [written[start:] for written in outputs]


class Row:
    """One row of a design, as plain numbers: (t, s, q, u), positions in the order of copies, fillers in that order."""

    def __init__(self, weights: Weights, tokens, order, fillers):
        self.weights, (self.t, self.s, self.q, self.u) = weights, tokens
        self.order, self.fillers = list(order), list(fillers)

    def sequence(self, listener: int, copied: int, count: int) -> list[int]:
        slots = [listener, *[copied] * (count - 1), *self.fillers[count:]]
        if listener != copied:
            slots[-1] = copied  # so that `count` copies are heard
        tokens = [0] * len(slots)
        for position, token in zip(self.order, slots, strict=True):
            tokens[position] = token
        return tokens

    def alone(self, token: int, slot: int):
        """What each block writes at a slot whose token is the only one of its kind."""
        slots = list(self.fillers)
        slots[slot] = token
        tokens = [0] * len(slots)
        for position, name in zip(self.order, slots, strict=True):
            tokens[position] = name
        return [written[self.order[slot]] for written in self.weights.run(tokens)[1]]

    def heard(
        self, block: int, listener: int, copied: int, count: int, ask: Callable = lambda block, queries: queries
    ) -> np.ndarray:
        """What `block` writes for the listener, when in all blocks before it nobody has heard of copies."""
        around = self.weights.run(self.sequence(self.t, self.t, 1))[1]
        last = len(self.order) - 1
        held = [*range(1, count), *[last] * (listener != copied)]
        slots = {0: self.alone(listener, 0), **{slot: self.alone(copied, slot) for slot in held}} if block else {}

        def change(index: int, written: np.ndarray) -> np.ndarray:
            if index >= block:
                return written
            start = int(self.weights.bos)
            held = np.zeros_like(written)
            held[start:] = around[index]
            for slot, outputs in slots.items():
                held[start + self.order[slot]] = outputs[index]
            return held

        return self.weights.run(self.sequence(listener, copied, count), change, ask)[1][block][self.order[0]]

    def asking(self, block: int, listener: int, copied: int, count: int) -> np.ndarray:
        """What `block` writes for a listener among copies, with the queries that q would have there."""
        place, found = self.order[0] + int(self.weights.bos), []

        def listen(index: int, queries: np.ndarray) -> np.ndarray:
            found.append(queries[place])
            return queries

        def ask(index: int, queries: np.ndarray) -> np.ndarray:
            queries = queries.copy()
            if index == block:
                queries[place] = found[block]
            return queries

        self.heard(block, self.q, copied, count, listen)
        return self.heard(block, listener, copied, count, ask)

    def worths(self, block: int, i0: int, i1: int) -> dict[str, np.ndarray]:
        """The four worths of a move, inventory and null times the bystander's loudness."""

        def worth(listener: int, copied: int) -> np.ndarray:
            return self.heard(block, listener, copied, i1) - self.heard(block, listener, copied, i0)

        def asking(listener: int, copied: int) -> np.ndarray:
            return self.asking(block, listener, copied, i1) - self.asking(block, listener, copied, i0)

        def louder(by_q: np.ndarray) -> float:
            heard = by_q @ by_q > FAINT**2 * (own @ own)
            return min(max(by_t @ by_q / (by_q @ by_q), 0.0), LOUDEST) if heard else 1.0

        own, by_t = worth(self.t, self.t), worth(self.t, self.u) - worth(self.t, self.s)
        loudness = louder(worth(self.q, self.u) - worth(self.q, self.s))
        by_queries = {}
        if not self.weights.lin:
            factor = louder(asking(self.t, self.u) - asking(self.t, self.s))
            by_queries = {
                "inventory by queries": factor * asking(self.t, self.t),
                "null by queries": factor * asking(self.s, self.s),
            }
        return by_queries | {
            "own": own,
            "relation": worth(self.s, self.s),
            "inventory": loudness * worth(self.q, self.t),
            "null": loudness * worth(self.q, self.s),
        }

    def answer(self, tokens: Sequence[int], block: int, worth: np.ndarray) -> np.ndarray:
        """Logits at the listener's position when `worth` is added at every position of t in `block`."""

        def change(index: int, written: np.ndarray) -> np.ndarray:
            here = np.array([*[False] * self.weights.bos, *(token == self.t for token in tokens)])
            return written + here[:, None] * worth if index == block else written

        return self.weights.run(tokens, change)[0][self.order[0]]
