"""How the kernels are compiled: numba, cached on disk, arithmetic that vectorises and is the same in every run.

Where numba does not load, kernels stay Python functions. Those that draw sequences work all the same; the others are
not used then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

try:
    import numba
except Exception as error:  # what a broken installation raises is not only ImportError
    numba = None
    WHY_NOT_COMPILED: str | None = f"numba, which compiles the kernels, does not load ({type(error).__name__}: {error})"
else:
    WHY_NOT_COMPILED = None

# Sums may be reordered at compile time, products and sums fused. Both are fixed once compiled: the same input gives the
# same bits. NaN and infinity keep their meaning, so that a run that diverges is seen to diverge.
_ARITHMETIC = frozenset({"contract", "nsz", "reassoc"})


def compiled(function: Callable[..., Any], *, inlined: bool = False) -> Any:
    """`function` as machine code. What a run-time type checker has wrapped around it (under pytest) is taken off.

    Kernels allocate nothing, so they are compiled without reference counting.
    """
    if numba is None:
        return function
    from counting_interp.util.compiled import kept

    options = {"error_model": "numpy", "_nrt": False, "forceinline": inlined}
    kernel = numba.njit(fastmath=set(_ARITHMETIC), **options)(inspect.unwrap(function))
    return kept(kernel, Path(__file__).parent)


# For functions that are called often: a call hands over nine numbers for every matrix, more work than many loops here.
inlined = partial(compiled, inlined=True)
