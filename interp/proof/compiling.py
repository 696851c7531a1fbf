"""How the inner loops of the proofs are compiled: every operation as it is written, rounded as IEEE 754 says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba import njit

from counting_interp.util.compiled import kept


def compiled(function: Callable[..., Any]) -> Any:
    """`function` as machine code, kept on disk."""
    return kept(njit(error_model="numpy")(inspect.unwrap(function)))
