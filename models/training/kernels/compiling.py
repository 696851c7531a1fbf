"""How the kernels are compiled: numba, cached on disk, arithmetic that vectorises and is the same in every run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numba

LANES = 16  # the innermost axes of size p and C are padded with zeros to this, so that loops have no ragged end

# Sums may be reordered at compile time, products and sums fused. Both are fixed once compiled: the same input gives the
# same bits. NaN and infinity keep their meaning, so that a run that diverges is seen to diverge.
_ARITHMETIC = {"contract", "nsz", "reassoc"}


def compiled(function: Callable[..., Any]) -> Any:
    """`function` as machine code. What a run-time type checker has wrapped around it (under pytest) is taken off."""
    return numba.njit(cache=True, fastmath=_ARITHMETIC, error_model="numpy")(inspect.unwrap(function))


def padded(size: int) -> int:
    return -(-size // LANES) * LANES
