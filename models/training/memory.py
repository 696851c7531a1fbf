"""How the weights of a model, their gradients and the scratch space of a step lie in memory.

All weights are one flat array, so that Adam is one pass; the kernels see views of it. The axes of size p and C are
padded with zeros to whole vector registers: padding has no gradient, so it stays zero.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from models.config import CountingConfig
from models.training.kernels.blocks import Block, Shape, Trace, Weights
from models.training.kernels.compiling import padded
from models.training.kernels.plan import Rows, Targets
from models.training.kernels.sampling import Multisets, collect_all


def shape_of(config: CountingConfig) -> Shape:
    """The facts about a model that its kernels branch on."""
    return Shape(
        lin=config.mixing == "lin",
        bos=config.has_bos,
        softmax=config.softmax,
        frozen=config.frozen_embeddings,
        classes=config.classes,
        first_count=config.first_count,
        trained_from=padded(config.vocab * config.d) if config.frozen_embeddings else 0,
    )


class WeightArrays:
    """The weights of a model as one flat array and named views of it; also used for their gradients.

    Attributes:
        flat: [weight], padding included.
        kernel: the views as the kernels take them.
    """

    def __init__(self, config: CountingConfig) -> None:
        self.dtype = np.dtype(config.dtype)
        shapes = _weight_shapes(config)
        sizes = {name: padded(math.prod(stored)) for name, (stored, _) in shapes.items()}
        self.flat = np.zeros(sum(sizes.values()), self.dtype)
        self._visible: dict[str, np.ndarray] = {}
        views, at = {}, 0
        for name, (stored, visible) in shapes.items():
            views[name] = self.flat[at : at + math.prod(stored)].reshape(stored)
            self._visible[name] = views[name][tuple(slice(size) for size in visible)]
            at += sizes[name]
        blocks = [self._block(views, f"blocks.{layer}.") for layer in (0, 1)]
        self.kernel = Weights(self.flat, views["embed.W_E"], *blocks)

    def _block(self, views: dict[str, np.ndarray], prefix: str) -> Block:
        def view(name: str, ndim: int = 2) -> np.ndarray:
            return views.get(prefix + name, np.zeros((0,) * ndim, self.dtype))

        return Block(
            view("attn.W_Q"),
            view("attn.W_K"),
            view("attn.A"),
            view("mlp.W_in"),
            view("mlp.b_in", 1),
            view("mlp.W_out"),
            view("mlp.b_out", 1),
        )

    def read(self, weights: dict[str, Tensor]) -> None:
        """Take over a state dict."""
        for name, view in self._visible.items():
            view[...] = weights[name].numpy()

    def write(self) -> dict[str, Tensor]:
        """A state dict with copies of the weights, without padding."""
        return {name: torch.from_numpy(view.copy()) for name, view in self._visible.items()}


def _weight_shapes(config: CountingConfig) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Of each weight by its state_dict name: the shape with padding, and the shape without."""
    d, p, P = config.d, config.p, padded(config.p)
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {"embed.W_E": ((config.vocab, d), (config.vocab, d))}
    for layer, out in enumerate(config.block_outputs):
        last = layer == config.n_layers - 1
        stored = padded(out) if last else out
        block = f"blocks.{layer}."
        if config.mixing == "lin":
            shapes[block + "attn.A"] = ((config.L, config.L),) * 2
        else:
            shapes[block + "attn.W_Q"] = shapes[block + "attn.W_K"] = ((d, d),) * 2
        shapes[block + "mlp.W_in"] = ((d, P), (d, p))
        shapes[block + "mlp.b_in"] = ((P,), (p,))
        shapes[block + "mlp.W_out"] = ((P, stored), (p, out))
        shapes[block + "mlp.b_out"] = ((stored,), (out,))
    return shapes


def empty_multisets(config: CountingConfig, n: int) -> Multisets:
    """Room for n sequences. A `bos` sequence has up to L + 1 keys."""
    wide, narrow = np.zeros((n, config.L + 1), np.int32), np.zeros((n, config.L), np.int32)
    return Multisets(wide, wide.copy(), np.zeros(n, np.int32), narrow)


def multisets_of(config: CountingConfig, tokens: Int[Tensor, "batch pos"]) -> Multisets:
    """Given sequences as the kernels read them."""
    data = empty_multisets(config, len(tokens))
    collect_all(tokens.to(torch.int32).numpy(), config.T, config.has_bos, data)
    return data


class Scratch:
    """Everything that a step of `batch_size` sequences writes to.

    Attributes:
        rows: the plan of the one block, or a pair of them.
        traces, d_traces: what the block, or each of two, keeps of its forward pass, and the gradients of the same.
        last: plan and trace of the last block.
        targets: labels of the output rows.
        spare: room for one more gradient of a block's input.
    """

    def __init__(self, config: CountingConfig, batch_size: int) -> None:
        most = batch_size * (config.L + 1)
        outputs = [*config.block_outputs[:-1], padded(config.classes)]
        sources = [config.vocab, most][: config.n_layers]
        blocks = list(zip(sources, outputs, strict=True))
        rows = [_rows(config, batch_size) for _ in blocks]
        traces = [_trace(config, *sizes, most) for sizes in blocks]
        d_traces = [_trace(config, *sizes, most) for sizes in blocks]
        self.last = (rows[-1], traces[-1])
        self.rows, self.traces, self.d_traces = (
            tuple(parts) if config.n_layers == 2 else parts[0] for parts in (rows, traces, d_traces)
        )
        self.targets = Targets(np.zeros(most, np.int32), np.zeros(most, np.int32))
        self.spare = np.zeros((max(sources), config.d), np.dtype(config.dtype))


def _rows(config: CountingConfig, batch_size: int) -> Rows:
    start = np.zeros(batch_size + 1, np.int32)
    own = np.zeros(batch_size * (config.L + 1), np.int32)
    tokens, counts, keys, places = empty_multisets(config, batch_size)
    places[:] = np.arange(config.L)  # as the second block of a `lin` model has it
    return Rows(start, own, tokens, counts, keys, places)


def _trace(config: CountingConfig, sources: int, outputs: int, rows: int) -> Trace:
    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.dtype(config.dtype))

    lin = config.mixing == "lin"
    P, L, V = padded(config.p), config.L, config.vocab
    return Trace(
        q=zeros(0 if lin else sources, config.d),
        k=zeros(0 if lin else sources, config.d),
        f=zeros(sources, P),
        matrix=zeros(L, L) if lin else zeros(0, 0),
        table=zeros(0, 0) if lin else zeros(V, V),
        weights=zeros(rows, L + 1),
        hidden=zeros(rows, P),
        out=zeros(rows, outputs),
    )
