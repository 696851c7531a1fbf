"""Products against numpy, for shapes that leave parts of tiles over; and nothing is read or written beside them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from counting_interp.models.training.kernels.tiles import row_products, times, transposed_times
from counting_interp.util.compiled import compiled

SHAPES = [
    (1, 1, 1),
    (2, 15, 3),
    (8, 16, 8),
    (7, 17, 5),
    (32, 33, 8),
    (9, 48, 40),
    (15, 50, 1),
    (33, 65, 45),
    (6, 31, 0),
]
TOLERANCE = {"float32": 1e-5, "float64": 1e-14}


@compiled
def multiply(transposed, a, n, b, out):
    if transposed:
        transposed_times(a, n, b, out)
    else:
        times(a, n, b, out)


@compiled
def multiply_rows(a, b, wide, out):
    row_products(a, b, wide, out)


def matrix(rows: int, columns: int, dtype: str, seed: int) -> np.ndarray:
    """Random numbers with NaN around them: whoever reads beside the matrix, sees it."""
    around = np.full((rows + 2, columns + 37), np.nan, dtype)
    part = around[1:-1, 3 : 3 + columns]
    part[:] = np.random.default_rng(seed).standard_normal((rows, columns))
    return part


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "inner"), SHAPES)
def test_product(m, n, inner, transposed, dtype):
    a, b = matrix(m, inner, dtype, 1), matrix(inner, n, dtype, 2)
    left = matrix(inner, m, dtype, 1) if transposed else a
    expected = (left.T if transposed else left).astype("float64") @ b.astype("float64")
    around = np.full((m + 2, n + 40), np.nan, dtype)
    multiply(transposed, left, inner if transposed else m, b, around[1:-1, 7 : 7 + n])
    assert_allclose(around[1:-1, 7 : 7 + n], expected, rtol=0, atol=TOLERANCE[dtype] * max(inner, 1))
    around[1:-1, 7 : 7 + n] = np.nan
    assert np.isnan(around).all()


@pytest.mark.parametrize("transposed", [False, True])
def test_bits_of_a_number_do_not_depend_on_what_is_computed_beside_it(transposed):
    a, b = matrix(41, 29, "float32", 3), matrix(29, 71, "float32", 4)
    left = a.T.copy() if transposed else a
    whole = np.zeros((41, 71), "float32")
    multiply(transposed, left, 29 if transposed else 41, b, whole)
    for i, j in ((0, 0), (8, 33), (40, 70), (39, 64)):
        for rows, columns in ((1, 1), (1, 31), (7, 1)):
            part = np.zeros((min(rows, 41 - i), min(columns, 71 - j)), "float32")
            some = left[:, i : i + len(part)] if transposed else left[i : i + len(part)]
            multiply(transposed, some, 29 if transposed else len(part), b[:, j : j + part.shape[1]], part)
            assert_array_equal(part, whole[i : i + len(part), j : j + part.shape[1]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9])
def test_products_of_rows(n, dtype):
    a, b = np.random.default_rng(5).standard_normal((2, n, 48)).astype(dtype)
    out = np.full((n, n), np.nan, dtype)
    multiply_rows(a, b, 48, out)
    assert_allclose(out, a.astype("float64") @ b.T.astype("float64"), rtol=0, atol=48 * TOLERANCE[dtype])
