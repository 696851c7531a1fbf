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
from models.training.kernels.compiling import padded
from models.training.kernels.plan import Rows
from models.training.kernels.sampling import collect_batch
from models.training.kernels.step import Block, Shape, Trace, Weights, Work


def shape_of(config: CountingConfig) -> Shape:
    """The facts about a model that its kernels branch on."""
    return Shape(
        T=config.T,
        lin=config.mixing == "lin",
        bos=config.has_bos,
        softmax=config.softmax,
        two_layers=config.n_layers == 2,
        frozen=config.frozen_embeddings,
        classes=config.classes,
        first_count=config.first_count,
    )


class WeightArrays:
    """The weights of a model as one flat array and named views of it; also used for their gradients.

    Attributes:
        flat: [weight], padding included.
        kernel: the views as the kernels take them.
        trained_from: where the trained weights begin in `flat`: behind the embeddings, if these are frozen.
    """

    def __init__(self, config: CountingConfig) -> None:
        self.dtype = np.dtype(config.dtype)
        shapes = _weight_shapes(config)
        sizes = {name: padded(math.prod(stored)) for name, (stored, _) in shapes.items()}
        self.flat = np.zeros(sum(sizes.values()), self.dtype)
        self.trained_from = sizes["embed.W_E"] if config.frozen_embeddings else 0
        self._visible: dict[str, np.ndarray] = {}
        views, at = {}, 0
        for name, (stored, visible) in shapes.items():
            views[name] = self.flat[at : at + math.prod(stored)].reshape(stored)
            self._visible[name] = views[name][tuple(slice(size) for size in visible)]
            at += sizes[name]
        blocks = [self._block(views, f"blocks.{layer}.") for layer in (0, 1)]
        self.kernel = Weights(views["embed.W_E"], *blocks, self.flat)

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


class Batch:
    """Sequences as multisets, in the arrays that `kernels.sampling` describes."""

    def __init__(self, config: CountingConfig, n: int) -> None:
        width = config.L + 1
        self.tokens = np.zeros((n, width), np.int32)
        self.counts = np.zeros((n, width), np.int32)
        self.keys = np.zeros(n, np.int32)
        self.places = np.zeros((n, config.L), np.int32)

    @classmethod
    def of(cls, config: CountingConfig, tokens: Int[Tensor, "batch pos"]) -> Batch:
        batch = cls(config, len(tokens))
        sequences = tokens.to(torch.int32).numpy()
        collect_batch(sequences, config.T, config.has_bos, batch.tokens, batch.counts, batch.keys, batch.places)
        return batch


def scratch(config: CountingConfig, batch_size: int) -> Work:
    """Everything that one step of `batch_size` sequences writes to."""
    dtype = np.dtype(config.dtype)
    rows = batch_size * (config.L + 1)
    two = config.n_layers == 2
    first = _trace(config, config.vocab, rows, config.vocab, config.block_outputs[0] if two else padded(config.classes))
    second = _trace(config, rows if two else 0, rows if two else 0, 0, padded(config.classes))
    return Work(
        rows1=_rows(config, batch_size),
        rows2=_rows(config, batch_size),
        trace1=first,
        trace2=second,
        d_trace1=_copy(first),
        d_trace2=_copy(second),
        d_x=np.zeros((max(rows, config.vocab), config.d), dtype),
        labels=np.zeros(rows, np.int32),
        repeats=np.zeros(rows, np.int32),
    )


def _rows(config: CountingConfig, batch_size: int) -> Rows:
    batch = Batch(config, batch_size)
    batch.places[:] = np.arange(config.L)  # as the second block of a `lin` model has it; the sampler overwrites it
    start = np.zeros(batch_size + 1, np.int32)
    own = np.zeros(batch_size * (config.L + 1), np.int32)
    return Rows(start, own, batch.tokens, batch.counts, batch.keys, batch.places)


def _trace(config: CountingConfig, sources: int, rows: int, table: int, outputs: int) -> Trace:
    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.dtype(config.dtype))

    lin = config.mixing == "lin"
    P, L = padded(config.p), config.L
    return Trace(
        q=zeros(0 if lin else sources, config.d),
        k=zeros(0 if lin else sources, config.d),
        f=zeros(sources, P),
        matrix=zeros(L, L) if lin and sources else zeros(0, 0),
        table=zeros(0 if lin else table, table),
        weights=zeros(rows, L + 1),
        hidden=zeros(rows, P),
        out=zeros(rows, outputs),
    )


def _copy(trace: Trace) -> Trace:
    return Trace(*(array.copy() for array in trace))
