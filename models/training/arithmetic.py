"""The state of the processor while a kernel runs: one thread for linear algebra, denormal numbers flushed to zero.

The bits of a product may depend on the number of threads. Denormals appear where attention saturates (its gradients
underflow), and a product with many of them takes a hundred times as long; below 1e-38 they carry no information.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

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
