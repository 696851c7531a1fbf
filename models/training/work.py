"""What a training run takes, so that one that would not end is refused before it begins.

A model of the largest sizes has a step of terabytes or an epoch of weeks, and nothing in `-T 4096 -L 4096` says so.
Estimates are coarse, within a factor of three or so: they tell minutes from days.
"""

from __future__ import annotations

from counting_interp.models.checkpoint.contents import MAX_FILE_BYTES
from counting_interp.models.config import CountingConfig
from counting_interp.models.cost import MULTIPLICATIONS, sizes
from counting_interp.models.training.engine import why_no_kernels
from counting_interp.models.training.recipe import Recipe
from counting_interp.util.text import duration

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
        return f"a checkpoint on the way, of {sizes(config)}, would take {file:,} of at most {MAX_FILE_BYTES:,} bytes"
    if needed > LARGEST:
        return f"training needs {needed / 2**30:,.0f} GB for {sizes(config)} and batches of {recipe.batch_size}"
    if seconds > LONGEST_EPOCH:
        return f"an epoch of {recipe.sequences:,} sequences takes about {duration(seconds)} for {sizes(config)}"
    return None


def _of_kernels(config: CountingConfig, recipe: Recipe) -> tuple[int, int]:
    """Numbers held, and multiplications of a step: see `models.training.memory` and docs/training.md."""
    L, T, d, p, C = config.L, config.vocab, config.d, config.p, config.classes
    lin = config.mixing == "lin"
    width = p if lin else 2 * d + p
    places = recipe.batch_size * (L + 1)
    # distinct tokens of a sequence: of uniform ones at most L, of the others' blocks about ln L
    distinct = L if lin or recipe.sampler == "uniform" else min(L, 2 + L.bit_length())
    rows, sources = recipe.batch_size * distinct, min(T, recipe.batch_size * distinct)
    held = T * width + (0 if lin else T * T) + places * (p + C) + (2 * L * L + places * p if lin else places * L)
    mixed = L * places * p if lin else rows * distinct * p + sources * sources * d
    products = sources * d * width + mixed + rows * p * max(C, d)
    step = products // _FASTER + _PER_NUMBER * (rows * (p + C) + config.num_parameters)
    return 2 * config.n_layers * held, _PASSES * config.n_layers * step + _OVERHEAD_OF_KERNELS


def _of_autograd(config: CountingConfig, recipe: Recipe) -> tuple[int, int]:
    """The same of the hooked module, which computes every place and keeps what passes each of its hook points."""
    L, d, p, C = config.n_positions, config.d, config.p, config.classes
    places = recipe.batch_size * L
    held = places * (4 * L * config.n_heads + 8 * d + 4 * p + 4 * C)
    products = places * (2 * L * d + 4 * d * d + d * p + p * max(C, d))
    step = products // _FASTER + _PER_NUMBER * (held + config.num_parameters)
    return 2 * config.n_layers * held, _PASSES * config.n_layers * step + _OVERHEAD_OF_AUTOGRAD
