"""All multisets, one by one, where they are few: the exact smallest margin of every cell."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from jaxtyping import Int

from counting_interp.interp.proof.cells import CountCell
from counting_interp.models.config import CountingConfig

MAX_CASES = 300_000  # of a whole model
MAX_ENTRIES = 2_000_000  # of one array of pre-activations


def cases(config: CountingConfig, counts: int) -> int:
    """Number of (token, multiset of the other positions) pairs with counts up to `counts`."""
    return config.T * sum(comb(config.T - 2 + config.L - k, config.L - k) for k in range(1, counts + 1))


def enumerable(config: CountingConfig, counts: int) -> bool:
    return config.mixing != "lin" and cases(config, counts) <= MAX_CASES


@lru_cache(maxsize=32)
def multisets(n: int, r: int) -> Int[np.ndarray, "multiset r"]:
    """All multisets of r elements of 0..n-1, one sorted row each."""
    rows = list(combinations_with_replacement(range(n), r))
    return np.array(rows, dtype=np.int64).reshape(len(rows), r)


def enumerate_cell(cell: CountCell) -> tuple[float, Int[np.ndarray, "others"]]:
    """The smallest margin of a `dot` or `bos` cell over all sequences, and the other tokens that give it."""
    rows = multisets(cell.reduction.config.T - 1, cell.free)
    rows = rows + (rows >= cell.view.token)  # skip the token itself
    part = max(1, MAX_ENTRIES // (cell.base.size * max(1, cell.free)))
    margins = np.concatenate([cell.margins(rows[i : i + part]) for i in range(0, len(rows), part)])
    lowest = int(margins.argmin())
    return float(margins[lowest]), rows[lowest]
