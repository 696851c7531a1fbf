"""Arithmetic on vectors against numpy, over all magnitudes that a run can meet, and Adam over the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from counting_interp.models.training.engine import flushed_denormals
from counting_interp.models.training.kernels.epoch import Course, adam
from counting_interp.models.training.kernels.lanes import LANES, exp_down, load, log, root, store
from counting_interp.models.training.kernels.products import transpose
from counting_interp.util.compiled import compiled

SINGLE = 4e-7  # of relative error, in single precision


@compiled
def exp_all(numbers, out):
    for at in range(0, len(numbers), LANES):
        store(exp_down(load(numbers, at)), out, at)


@compiled
def log_all(numbers, out):
    for at in range(0, len(numbers), LANES):
        store(log(load(numbers, at)), out, at)


@compiled
def root_all(numbers, out):
    for at in range(0, len(numbers), LANES):
        store(root(load(numbers, at)), out, at)


@compiled
def transpose_all(a, out):
    transpose(a, len(a), out)


@compiled
def step(weights, gradient, moments, begin, count, rate, course):
    adam(weights, gradient, moments, begin, count, rate, course)


def applied(kernel, numbers: np.ndarray) -> np.ndarray:
    out = np.full_like(numbers, 7)
    with flushed_denormals():
        kernel(numbers, out)
    return out


def vectors(*special: float, low: float, high: float, dtype: str) -> np.ndarray:
    """Numbers from low to high on a logarithmic scale, and special ones, filled up to whole vectors."""
    numbers = np.concatenate([np.geomspace(low, high, 16_000), special, np.full(-len(special) % LANES, low)])
    return numbers.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exponential(dtype):
    x = -vectors(0.0, low=1e-7, high=86.9, dtype=dtype)
    assert_allclose(applied(exp_all, x), np.exp(x.astype("float64")), rtol=2e-7 if dtype == "float32" else 1e-15)
    edges = np.array([5.0, -1e30, -np.inf, np.nan] + [-200.0] * 12, dtype)
    assert_array_equal(applied(exp_all, edges)[:4], [1, 0, 0, np.nan])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithm(dtype):
    x = vectors(1.0, low=1e-37, high=1e37, dtype=dtype)
    tolerance = SINGLE if dtype == "float32" else 1e-15
    assert_allclose(applied(log_all, x), np.log(x.astype("float64")), rtol=tolerance, atol=tolerance)
    assert np.isnan(applied(log_all, np.full(LANES, np.nan, dtype))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_root(dtype):
    x = vectors(1.0, low=1.1e-36, high=1e37, dtype=dtype)
    assert_allclose(applied(root_all, x), np.sqrt(x.astype("float64")), rtol=SINGLE if dtype == "float32" else 1e-15)
    small = vectors(0.0, low=1e-45, high=1e-36, dtype=dtype)  # among them denormal numbers
    assert_allclose(applied(root_all, small), 0, atol=1.1e-18)
    assert np.isnan(applied(root_all, np.full(LANES, np.nan, dtype))).all()


@pytest.mark.parametrize("shape", [(32, 96), (33, 50), (7, 5), (16, 16), (40, 16), (16, 31)])
def test_transposition(shape):
    a = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    assert_array_equal(applied_to_shape(a), a.T)
    part = np.arange(4.0 * shape[0] * shape[1]).reshape(2 * shape[0], 2 * shape[1])[: shape[0], 3 : 3 + shape[1]]
    assert_array_equal(applied_to_shape(part), part.T)  # rows with a gap between them


def applied_to_shape(a: np.ndarray) -> np.ndarray:
    out = np.zeros((a.shape[1], a.shape[0]), a.dtype)
    transpose_all(a, out)
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 5_000])
def test_adam_for_moments_of_all_sizes(dtype, count):
    """A hidden unit that has died has a second moment that shrinks for ever: through all denormal numbers, to zero."""
    second = np.concatenate([np.zeros(LANES), np.geomspace(1e-45, 1e30, 160 * LANES)]).astype(dtype)
    sign = np.where(np.arange(len(second)) % 2, 1, -1)
    first = (sign * np.minimum(np.sqrt(second.astype("float64")), 1e15)).astype(dtype)
    gradient = np.where(np.arange(len(second)) % 3, 0, 0.1 * first).astype(dtype)
    weights = np.linspace(-1, 1, len(second)).astype(dtype)
    course = Course(32, 0.9, 0.98, 1e-9)

    m = 0.9 * first.astype("float64") + 0.1 * gradient.astype("float64")
    v = 0.98 * second.astype("float64") + 0.02 * gradient.astype("float64") ** 2
    change = 1e-3 / (1 - 0.9**count) * m / (np.sqrt(v / (1 - 0.98**count)) + 1e-9)
    expected = weights - change

    untouched = weights[:LANES].copy()
    with flushed_denormals():
        step(weights, gradient, (first, second), LANES, count, 1e-3, course)
    assert_array_equal(weights[:LANES], untouched)
    assert_allclose(weights[LANES:], expected[LANES:], rtol=0, atol=1e-6 if dtype == "float32" else 1e-14)
