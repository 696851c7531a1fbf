"""Training by compiled kernels: the paper's six variants, tens of times as fast as the published code.

This file lays out the weights, their gradients and the scratch arrays of a step in memory. All weights are one flat
array, so that Adam is one pass; the kernels see views of it. The axes of size p and C are padded to whole vector
registers. Padding has no gradient, so it keeps its value: zero, except for the bias of padded classes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from counting_interp.models.config import CountingConfig
from counting_interp.models.training.engine import (
    Recipe,
    draw_multisets,
    empty_multisets,
    flushed_denormals,
    multisets_of,
)
from counting_interp.models.training.kernels import epoch as kernels
from counting_interp.models.training.kernels.batches import MANY, Multisets, Rows, Targets
from counting_interp.models.training.kernels.epoch import Block, Course, Layer, Shape, Trace, Weights
from counting_interp.models.training.kernels.lanes import padded


def shape_of(config: CountingConfig) -> Shape:
    """The properties of a model on which its kernels branch."""
    return Shape(
        lin=config.mixing == "lin",
        bos=config.has_bos,
        softmax=config.softmax,
        frozen=config.frozen_embeddings,
        classes=config.classes,
        first_count=config.first_count,
        f_at=0 if config.mixing == "lin" else 2 * config.d,
        trained_from=padded(config.vocab * config.d) if config.frozen_embeddings else 0,
    )


class WeightArrays:
    """The weights of a model, or their gradients, as one flat array and named views of it.

    Attributes:
        kernel: the flat array, padding included, and the embeddings, as the kernels take them.
        blocks: the weights of each block, as the kernels take them.
    """

    def __init__(self, config: CountingConfig) -> None:
        self.dtype = np.dtype(config.dtype)
        self._classes = config.classes
        shapes = _array_shapes(config)
        sizes = {name: padded(math.prod(shape)) for name, shape in shapes.items()}
        flat = np.zeros(sum(sizes.values()), self.dtype)
        arrays, at = {}, 0
        for name, shape in shapes.items():
            arrays[name] = flat[at : at + math.prod(shape)].reshape(shape)
            at += sizes[name]
        E_t = arrays["E_t"]
        self.kernel = Weights(flat, E_t, E_t if config.vocab < MANY else np.zeros_like(E_t))
        layers = range(config.n_layers)
        self.blocks = [Block(*(arrays[f"{layer}.{name}"] for name in Block._fields)) for layer in layers]
        self._named = _named_views(config, E_t, self.blocks)

    def read(self, weights: dict[str, Tensor]) -> None:
        """Copy a state dict into the arrays."""
        for name, view in self._named.items():
            view[...] = weights[name].numpy()
        self.blocks[-1].b_out[self._classes :] = kernels.PADDING

    def write(self) -> dict[str, Tensor]:
        """A state dict with copies of the weights, without padding."""
        return {name: torch.from_numpy(view.copy()) for name, view in self._named.items()}


def _array_shapes(config: CountingConfig) -> dict[str, tuple[int, ...]]:
    """The shapes of all arrays, in their order in memory."""
    d, P, L = config.d, padded(config.p), config.L
    lin = config.mixing == "lin"
    shapes: dict[str, tuple[int, ...]] = {"E_t": (d, config.vocab)}
    for layer, out in enumerate(_output_widths(config)):
        shapes |= {
            f"{layer}.W_x": (d, (0 if lin else 2 * d) + P),
            f"{layer}.A": (L, L) if lin else (0, 0),
            f"{layer}.b_in": (P,),
            f"{layer}.W_out": (P, out),
            f"{layer}.b_out": (out,),
        }
    return shapes


def _output_widths(config: CountingConfig) -> list[int]:
    """The output width of each block: d, and for the last the padded number of classes."""
    return [config.d] * (config.n_layers - 1) + [padded(config.classes)]


def _named_views(config: CountingConfig, E_t: np.ndarray, blocks: list[Block]) -> dict[str, np.ndarray]:
    """Views without padding, by state_dict name."""
    d, f = config.d, shape_of(config).f_at
    arrays = {"embed.W_E": E_t.T}
    for layer, block in enumerate(blocks):
        arrays |= {
            f"blocks.{layer}.attn.A": block.A,
            f"blocks.{layer}.attn.W_Q": block.W_x[:, :d],
            f"blocks.{layer}.attn.W_K": block.W_x[:, d : 2 * d],
            f"blocks.{layer}.mlp.W_in": block.W_x[:, f:],
            f"blocks.{layer}.mlp.b_in": block.b_in,
            f"blocks.{layer}.mlp.W_out": block.W_out,
            f"blocks.{layer}.mlp.b_out": block.b_out,
        }
    return {
        parameter.name: arrays[parameter.name][tuple(map(slice, parameter.shape))] for parameter in config.parameters
    }


def _most_rows(config: CountingConfig, batch_size: int) -> int:
    """That a block can have: see `plan_positions` for `lin`; others have one for each distinct token, `$` included."""
    return (batch_size + 1) * (config.L + 1)


def _rows(config: CountingConfig, layer: int, batch_size: int) -> Rows:
    vocab = config.vocab if layer == 0 else 0
    keys = (batch_size, padded(config.L + 1))
    return Rows(
        start=np.zeros(batch_size + 1, np.int32),
        own=np.zeros(_most_rows(config, batch_size), np.uint32),
        source=np.zeros(keys, np.uint32),
        counts=np.zeros(keys, config.dtype),
        keys=np.zeros(batch_size, np.int32),
        order=np.zeros(batch_size, np.int32),
        first=np.zeros(config.L + 3, np.int32),
        numbers=np.zeros(vocab, np.int32),
        tokens=np.zeros(vocab, np.int32),
    )


def _trace(config: CountingConfig, layer: int, batch_size: int) -> Trace:
    """Arrays for what a block computes; those that it does not need are empty."""
    lin, first = config.mixing == "lin", layer == 0

    def zeros(needed: bool, *shape: int) -> np.ndarray:
        return np.zeros(shape if needed else (0, 0), config.dtype)

    d, P, L, V = config.d, padded(config.p), config.L, config.vocab
    rows = _most_rows(config, batch_size)
    out = _output_widths(config)[layer]
    width = P if lin else 2 * d + P
    return Trace(
        qkf=zeros(True, V if first else rows, width),  # of every source
        k_t=zeros(not lin, d, V if first else rows),
        table=zeros(first and not lin, V, V),  # scores, unscaled
        weights=zeros(not lin, rows, padded(L + 1)),  # scores, then weights
        matrix=zeros(lin, L, L),
        with_residual=zeros(lin, L, L),
        by_position=zeros(lin and first, rows, P),  # f of the token at each position
        hidden=zeros(True, rows, P),  # after the ReLU; of a gradient, before it
        out=zeros(True, rows, out),
        W_out_t=zeros(True, out, P),
        turned=zeros(True, width, V if first else d),  # qkf^T or W_x^T, in the backward pass
    )


class KernelEngine:
    """See `Engine`. Sequences are multisets; weights and moments are flat arrays, padding included."""

    def __init__(self, config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> None:
        self.config, self.recipe = config, recipe
        self._weights = WeightArrays(config)
        self._weights.read(weights)
        self._gradient = WeightArrays(config)
        self.moments = (np.zeros_like(self._weights.kernel.flat), np.zeros_like(self._weights.kernel.flat))
        self._drawn = empty_multisets(config, recipe.sequences)
        self._shape = shape_of(config)
        self._course = Course(recipe.batch_size, *map(float, (recipe.beta1, recipe.beta2, recipe.eps)))
        layers = [
            Layer(
                block=self._weights.blocks[layer],
                d_block=self._gradient.blocks[layer],
                rows=_rows(config, layer, recipe.batch_size),
                trace=_trace(config, layer, recipe.batch_size),
                d_trace=_trace(config, layer, recipe.batch_size),
            )
            for layer in range(config.n_layers)
        ]
        self._first, self._second = layers[0], layers[1] if len(layers) == 2 else None
        rows = padded(_most_rows(config, recipe.batch_size))
        integers = (np.zeros(rows, np.int32) for _ in range(2))
        self._targets = Targets(*integers, *(np.zeros(rows, config.dtype) for _ in range(3)))

    def draw(self, epoch: int) -> Multisets:
        draw_multisets(self.config, self.recipe, epoch, self._drawn)
        return self._drawn

    def given(self, tokens: Int[Tensor, "batch pos"]) -> Multisets:
        return multisets_of(self.config, tokens)

    def part(self, data: Multisets, first: int, last: int) -> Multisets:
        return Multisets(*(column[first:last] for column in data))

    def train(self, data: Multisets, steps_done: int) -> float:
        steps = -(-len(data.keys) // self.recipe.batch_size)
        with flushed_denormals():
            return kernels.train(
                data, self._shape, self._course, steps_done, self.recipe.rates(steps_done, steps),
                self._weights.kernel, self._gradient.kernel, self.moments, self._first, self._second, self._targets,
            )  # fmt: skip

    def count_right(self, data: Multisets) -> int:
        with flushed_denormals():
            return kernels.evaluate(
                data, self._shape, self.recipe.batch_size, self._weights.kernel, self._first, self._second,
                self._targets,
            )  # fmt: skip

    def state_dict(self) -> dict[str, Tensor]:
        return self._weights.write()
