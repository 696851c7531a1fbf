"""What trains a model: one protocol, two engines, chosen by what they can do; and what both share.

`KernelEngine` is fast and knows the paper's six variants. `TorchEngine` is autograd on the hooked module itself and
trains whatever that can compute. Both draw the same sequences, as multisets, follow the same recipe, and resume from a
checkpoint to the same bits. Kernels run with one thread for linear algebra, since the bits of a product may depend on
the number of threads, and with denormal numbers flushed to zero. These appear where attention saturates, and a product
with many of them takes a hundred times as long; below 1e-38 they carry no information.

A run that would not end is refused before it begins (`too_large`). A model of the largest sizes has a step of terabytes
or an epoch of weeks. Estimates are within a factor of three or so: they tell minutes from days.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import ThreadpoolController
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.checkpoint.contents import MAX_FILE_BYTES
from counting_interp.models.config import CountingConfig
from counting_interp.models.cost import MULTIPLICATIONS
from counting_interp.models.training.kernels.sampling import PAPER, PUBLISHED, UNIFORM, Multisets, collect_all, draw
from counting_interp.models.training.recipe import Recipe
from counting_interp.util.compiled import WHY_NOT_COMPILED
from counting_interp.util.text import describe, duration


@runtime_checkable
class Engine(Protocol):
    """A model's weights in training. Sequences are handed over in the form that the engine reads: `draw` gives those of
    an epoch, `given` takes any. So `engine.train(engine.given(tokens), steps_done)` trains on sequences of one's own.

    Attributes:
        moments: the two moments of Adam, flat; in place, so that a run can be resumed.
    """

    moments: tuple[np.ndarray, np.ndarray]

    def draw(self, epoch: int) -> Any:
        """The fresh sequences of an epoch, which depend on the model's seed, the epoch and the recipe's sampler."""

    def given(self, tokens: Int[Tensor, "batch pos"]) -> Any:
        """Sequences from outside."""

    def part(self, data: Any, first: int, last: int) -> Any:
        """Sequences first..last of some, the last not among them. Training on the parts, cut between two batches, one
        after the other is training on the whole, to the bit."""

    def train(self, data: Any, steps_done: int) -> float:
        """Train on all sequences, batch by batch; returns the mean loss. `steps_done` says where in the schedule of the
        learning rate, and in Adam's warm-up, the first batch stands."""

    def count_right(self, data: Any) -> int:
        """How many positions are counted correctly."""

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        """As the engine computes them, for at most one batch of sequences."""

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the weights."""

    def gradients(self) -> dict[str, Tensor]:
        """Of the last step."""


def why_no_kernels(config: CountingConfig, recipe: Recipe) -> str | None:
    """Why the compiled kernels cannot train this model by this recipe; None if they can."""
    if not config.is_paper_block:
        return f"the kernels compute the paper's six variants, and {config.name} has {config.beyond_paper} beyond them"
    if recipe.weight_decay:
        return f"the kernels have Adam without weight decay, and the recipe asks for {recipe.weight_decay:g}"
    return WHY_NOT_COMPILED


def engine_for(config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> Engine:
    """The faster of the engines that can do it."""
    if why_no_kernels(config, recipe) is None:
        from counting_interp.models.training.kernel_engine import KernelEngine

        return KernelEngine(config, recipe, weights)
    from counting_interp.models.training.torch_engine import TorchEngine

    return TorchEngine(config, recipe, weights)


VALIDATION_SEED = 12  # the authors' choice: all runs of the same T and L are measured on the same sequences
SAMPLERS = {"paper": PAPER, "published": PUBLISHED, "uniform": UNIFORM}


def empty_multisets(config: CountingConfig, n: int) -> Multisets:
    """Room for n sequences. A `bos` sequence has up to L + 1 keys."""
    wide, narrow = np.zeros((n, config.L + 1), np.int32), np.zeros((n, config.L), np.int32)
    return Multisets(wide, wide.copy(), np.zeros(n, np.int32), narrow)


def multisets_of(config: CountingConfig, tokens: Int[Tensor, "batch pos"]) -> Multisets:
    """Given sequences as the kernels read them."""
    data = empty_multisets(config, len(tokens))
    collect_all(tokens.to(torch.int32).numpy(), config.T, config.has_bos, data)
    return data


def draw_multisets(config: CountingConfig, recipe: Recipe, epoch: int, data: Multisets) -> None:
    """Fill `data` with the sequences of an epoch; their order is drawn only for models that can see it."""
    sampler, seed = SAMPLERS[recipe.sampler], config.seed
    with np.errstate(over="ignore"):  # the random numbers are meant to wrap around, also where nothing is compiled
        draw(np.zeros(1, np.uint64), seed, epoch, sampler, config.T, config.has_bos, config.reads_positions, data)


def draw_tokens(config: CountingConfig, recipe: Recipe, epoch: int) -> Int[Tensor, "batch pos"]:
    """The same sequences as tokens; where order does not matter, equal ones stand side by side."""
    data = empty_multisets(config, recipe.sequences)
    draw_multisets(config, recipe, epoch, data)
    if config.reads_positions:
        return torch.from_numpy(np.take_along_axis(data.tokens, data.slots, 1)).long()
    counts = np.where(np.arange(config.L + 1) < data.keys[:, None] - config.has_bos, data.counts, 0)
    return torch.from_numpy(np.repeat(data.tokens.ravel(), counts.ravel()).reshape(-1, config.L)).long()


def validation_sequences(config: CountingConfig, recipe: Recipe) -> Int[Tensor, "batch pos"]:
    return task.sample(recipe.sampler, recipe.validation, T=config.T, L=config.L, generator=VALIDATION_SEED)


SMALLEST = np.array([1], np.int32).view(np.float32)  # 1.4e-45, a denormal


@contextmanager
def kernel_arithmetic() -> Iterator[None]:
    """For the calling thread and the time of a `with`; what was set before is restored."""
    flushed_before = not (SMALLEST * np.float32(1)).any()
    with _linear_algebra().limit(limits=1, user_api="blas"):
        torch.set_flush_denormal(True)
        try:
            yield
        finally:
            torch.set_flush_denormal(flushed_before)


@cache
def _linear_algebra() -> ThreadpoolController:
    """The libraries that are loaded; found once, since looking takes milliseconds."""
    import scipy.linalg  # noqa: F401  (whose BLAS numba calls: it must be loaded to be found)

    return ThreadpoolController()


LONGEST_EPOCH = 3600  # seconds, about, on one quiet core
LARGEST = 8 * 2**30  # bytes
# One pass forward and two backward; large products go four times as fast as small ones; numbers passed on are read and
# written some times; a step takes a while by itself.
_PASSES, _FASTER, _PER_NUMBER = 3, 4, 10
_OVERHEAD_OF_KERNELS, _OVERHEAD_OF_AUTOGRAD = 10**5, 4 * 10**7


def too_large(config: CountingConfig, recipe: Recipe, together: int = 1) -> str | None:
    """Why a training run cannot be done here; None where it can.

    Args:
        together: runs in one computation.
    """
    parts = _of_kernels(config, recipe) if why_no_kernels(config, recipe) is None else _of_autograd(config, recipe)
    held, step = parts
    kept = 4 * config.num_parameters + (recipe.sequences + recipe.validation) * 8 * config.L
    needed = 4 * together * (held + kept)
    seconds = (recipe.steps_per_epoch + recipe.validation / recipe.batch_size / _PASSES) * step / MULTIPLICATIONS
    file = 3 * config.num_parameters * (8 if config.dtype == "float64" else 4)  # weights and both moments
    if file > MAX_FILE_BYTES:
        return (
            f"a checkpoint on the way, of {describe(config)}, would take {file:,} of at most {MAX_FILE_BYTES:,} bytes"
        )
    if needed > LARGEST:
        return f"training needs {needed / 2**30:,.0f} GB for {describe(config)} and batches of {recipe.batch_size}"
    if seconds > LONGEST_EPOCH:
        return f"an epoch of {recipe.sequences:,} sequences takes about {duration(seconds)} for {describe(config)}"
    return None


def _of_kernels(config: CountingConfig, recipe: Recipe) -> tuple[int, int]:
    """Numbers held, and multiplications of a step: see `kernel_engine` and docs/training.md."""
    L, T, d, p, C = config.L, config.vocab, config.d, config.p, config.classes
    lin = config.mixing == "lin"
    width = p if lin else 2 * d + p
    positions = recipe.batch_size * (L + 1)
    # distinct tokens of a sequence: of uniform ones at most L, of the others' blocks about ln L
    distinct = L if lin or recipe.sampler == "uniform" else min(L, 2 + L.bit_length())
    rows, sources = recipe.batch_size * distinct, min(T, recipe.batch_size * distinct)
    held = (
        T * width + (0 if lin else T * T) + positions * (p + C) + (2 * L * L + positions * p if lin else positions * L)
    )
    mixed = L * positions * p if lin else rows * distinct * p + sources * sources * d
    products = sources * d * width + mixed + rows * p * max(C, d)
    step = products // _FASTER + _PER_NUMBER * (rows * (p + C) + config.num_parameters)
    return 2 * config.n_layers * held, _PASSES * config.n_layers * step + _OVERHEAD_OF_KERNELS


def _of_autograd(config: CountingConfig, recipe: Recipe) -> tuple[int, int]:
    """The same of the hooked module, which computes every position and keeps what passes each of its hook points."""
    L, d, p, C = config.n_positions, config.d, config.p, config.classes
    positions = recipe.batch_size * L
    held = positions * (4 * L * config.n_heads + 8 * d + 4 * p + 4 * C)
    products = positions * (2 * L * d + 4 * d * d + d * p + p * max(C, d))
    step = products // _FASTER + _PER_NUMBER * (held + config.num_parameters)
    return 2 * config.n_layers * held, _PASSES * config.n_layers * step + _OVERHEAD_OF_AUTOGRAD
