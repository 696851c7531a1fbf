"""The recipe of a training run, the protocol of the two engines that follow it, and what both share.

`KernelEngine` is fast and knows the paper's six variants. `TorchEngine` is autograd on the hooked module itself and
trains any block. Both draw the same sequences, as multisets, and resume from a checkpoint to the same bits.

Both flush denormal numbers to zero. These appear where attention saturates, and products with many of them take a
hundred times as long; below 1e-38 they carry no information.

A run that would not end is refused before it begins (`too_large`): a model of the largest sizes has a step of terabytes
or an epoch of weeks. Estimates are within a factor of about three, enough to tell minutes from days.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models import task
from counting_interp.models.checkpoint.contents import MAX_FILE_BYTES
from counting_interp.models.config import CountingConfig
from counting_interp.models.cost import MULTIPLICATIONS
from counting_interp.models.training.kernels.batches import PAPER, PUBLISHED, UNIFORM, Multisets, collect_all, draw
from counting_interp.util.compiled import WHY_NOT_COMPILED
from counting_interp.util.text import describe, duration

SCHEDULES = ("constant", "linear", "cosine")


@dataclass(frozen=True)
class Recipe:
    """What a run does, for a given model and seed; the defaults are the published protocol.

    Args:
        epochs: passes of fresh sequences.
        sequences: in each epoch; the last batch is smaller if the batch size does not divide them.
        batch_size: sequences per step.
        lr, beta1, beta2, eps: of Adam.
        sampler: `paper`, `published` (what the authors trained with) or `uniform`; for training and validation.
        validation: sequences for the accuracy after each epoch, the same in all runs.
        weight_decay: of AdamW: at each step all trained weights shrink by the factor 1 - rate * weight_decay.
        schedule: of the learning rate over the run: `constant`, or from lr to zero, `linear` or `cosine`.
        qk_scale: factor on the initial W_Q and W_K.
    """

    epochs: int = 500
    sequences: int = 10_000
    batch_size: int = 32
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    sampler: str = "paper"
    validation: int = 3000
    weight_decay: float = 0.0
    schedule: str = "constant"
    qk_scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("epochs", "sequences", "batch_size", "validation"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**9:
                raise ValueError(f"{name} must be an integer from 1 to 10**9, got {value!r}")
        for name, high in {"lr": 1, "beta1": 1, "beta2": 1, "eps": 1, "weight_decay": 10**6, "qk_scale": 10**3}.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < high:
                raise ValueError(f"{name} must be at least 0 and below {high}, got {value!r}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}")
        task.check_sampler(self.sampler, T=2, L=2)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.sequences // self.batch_size)

    def rates(self, steps_done: int, steps: int) -> Float[np.ndarray, "step"]:
        """The learning rate of each of the next steps."""
        done = np.minimum(np.arange(steps_done, steps_done + steps) / (self.epochs * self.steps_per_epoch), 1.0)
        left = {"constant": np.ones(steps), "linear": 1 - done, "cosine": (1 + np.cos(np.pi * done)) / 2}
        return self.lr * left[self.schedule]

    def to_dict(self) -> dict[str, Any]:
        """The fields, without those beyond the published protocol that have their default."""
        beyond = {"weight_decay": 0.0, "schedule": "constant", "qk_scale": 1.0}
        return {name: value for name, value in dataclasses.asdict(self).items() if beyond.get(name) != value}


@runtime_checkable
class Engine(Protocol):
    """The weights of a model in training. Each engine has its own form of sequences, which `draw` and `given` return.

    Attributes:
        moments: the two moments of Adam, flat. A resumed run writes them in place.
    """

    moments: tuple[np.ndarray, np.ndarray]

    def draw(self, epoch: int) -> Any:
        """The sequences of an epoch, which depend on the model's seed, the epoch and the recipe's sampler."""

    def given(self, tokens: Int[Tensor, "batch pos"]) -> Any:
        """Given sequences in the form of the engine."""

    def part(self, data: Any, first: int, last: int) -> Any:
        """Sequences first..last - 1. Parts cut between two batches, trained in order, give the bits of the whole."""

    def train(self, data: Any, steps_done: int) -> float:
        """Train on all sequences, batch by batch, and return the mean loss.

        Args:
            steps_done: steps before the first batch, for the schedule of the learning rate and Adam's bias correction.
        """

    def count_right(self, data: Any) -> int:
        """The number of positions with the correct count."""

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the weights."""


def why_no_kernels(config: CountingConfig, recipe: Recipe) -> str | None:
    """Why the compiled kernels cannot train this model by this recipe; None if they can."""
    if not config.is_paper_block:
        return f"the kernels compute the paper's six variants, and {config.name} has {config.beyond_paper} beyond them"
    if recipe.weight_decay:
        return f"the kernels have Adam without weight decay, and the recipe asks for {recipe.weight_decay:g}"
    return WHY_NOT_COMPILED


def engine_for(config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> Engine:
    """The fastest engine that can train this model by this recipe."""
    if why_no_kernels(config, recipe) is None:
        from counting_interp.models.training.kernel_engine import KernelEngine

        return KernelEngine(config, recipe, weights)
    from counting_interp.models.training.torch_engine import TorchEngine

    return TorchEngine(config, recipe, weights)


VALIDATION_SEED = 12  # the authors' choice: all runs of the same T and L are measured on the same sequences
SAMPLER_CODES = {"paper": PAPER, "published": PUBLISHED, "uniform": UNIFORM}


def empty_multisets(config: CountingConfig, n: int) -> Multisets:
    """Arrays for n sequences. A `bos` sequence has up to L + 1 keys."""
    wide, narrow = np.zeros((n, config.L + 1), np.int32), np.zeros((n, config.L), np.int32)
    return Multisets(wide, wide.copy(), np.zeros(n, np.int32), narrow)


def multisets_of(config: CountingConfig, tokens: Int[Tensor, "batch pos"]) -> Multisets:
    """Sequences as the kernels read them."""
    data = empty_multisets(config, len(tokens))
    collect_all(tokens.to(torch.int32).numpy(), config.T, config.has_bos, data)
    return data


def draw_multisets(config: CountingConfig, recipe: Recipe, epoch: int, data: Multisets) -> None:
    """Fill `data` with the sequences of an epoch; positions are shuffled only for models that read them."""
    sampler, seed = SAMPLER_CODES[recipe.sampler], config.seed
    with np.errstate(over="ignore"):  # random numbers wrap around, also without numba
        draw(np.zeros(1, np.uint64), seed, epoch, sampler, config.T, config.has_bos, config.reads_positions, data)


def draw_tokens(config: CountingConfig, recipe: Recipe, epoch: int) -> Int[Tensor, "batch pos"]:
    """The same sequences as tokens; for models that do not read positions, equal tokens are adjacent."""
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
def flushed_denormals() -> Iterator[None]:
    """In the calling thread until the `with` ends."""
    flushed_before = not (SMALLEST * np.float32(1)).any()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed_before)


LONGEST_EPOCH = 3600  # seconds, about, on one quiet core
LARGEST = 8 * 2**30  # bytes
# One pass forward and two backward; large products are four times as fast as small ones; each number is read and
# written a few times; each step has an overhead.
_PASSES, _FASTER, _PER_NUMBER = 3, 4, 10
_OVERHEAD_OF_KERNELS, _OVERHEAD_OF_AUTOGRAD = 10**5, 4 * 10**7


def too_large(config: CountingConfig, recipe: Recipe, together: int = 1) -> str | None:
    """Why a training run is too large for a machine; None if it is not.

    Args:
        together: runs in one computation.
    """
    cost = _cost_of_kernels if why_no_kernels(config, recipe) is None else _cost_of_autograd
    held, step = cost(config, recipe)
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


def _cost_of_kernels(config: CountingConfig, recipe: Recipe) -> tuple[int, int]:
    """Numbers held, and multiplications per step; see `kernel_engine` and docs/training.md."""
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


def _cost_of_autograd(config: CountingConfig, recipe: Recipe) -> tuple[int, int]:
    """The same of the hooked module, which computes every position and keeps the activation of every hook point."""
    L, d, p, C = config.n_positions, config.d, config.p, config.classes
    positions = recipe.batch_size * L
    held = positions * (4 * L * config.n_heads + 8 * d + 4 * p + 4 * C)
    products = positions * (2 * L * d + 4 * d * d + d * p + p * max(C, d))
    step = products // _FASTER + _PER_NUMBER * (held + config.num_parameters)
    return 2 * config.n_layers * held, _PASSES * config.n_layers * step + _OVERHEAD_OF_AUTOGRAD
