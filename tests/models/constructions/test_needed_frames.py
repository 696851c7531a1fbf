"""The exact conditions on frames are sharp, and nothing is claimed below what rank allows."""

from __future__ import annotations

import csv
import math

import pytest
import torch

from counting_interp.data import frames
from counting_interp.models.constructions.circuit import Circuit, Size, assemble
from counting_interp.models.constructions.frames import find_frame, known_dimension, least_dimension, welch_bound


@pytest.mark.parametrize(
    ("measure", "need", "least"), [("coherence", 1 / 17, 29), ("band", 1 / 17, 28), ("squares", 1 / 17, 7)]
)
def test_rank_bounds_at_the_papers_size(measure, need, least):
    assert least_dimension(32, measure, need) == least
    assert known_dimension(32, measure, need) == {"coherence": 30, "band": 29, "squares": 8}[measure]


def test_values_that_the_documentation_quotes():
    """From the committed survey: what was found at T = 32, next to what L = 10 allows."""
    with frames().open() as file:
        survey = {(row["measure"], int(row["n"]), int(row["d"])): float(row["value"]) for row in csv.DictReader(file)}
    assert survey["coherence", 32, 29] > 0.0625 > 1 / 17 > 0.051 > survey["coherence", 32, 30]
    assert survey["band", 32, 28] > 0.063 > 1 / 17 > 0.0506 > survey["band", 32, 29]
    assert survey["squares", 32, 7] > 0.1 > 1 / 17 > 1 / 37 > 0.0258 > survey["squares", 32, 8]  # 37 = 2 * 20 - 3
    assert survey["coherence", 32, 12] < 0.2994
    assert survey["band", 32, 5] > 0.55 > 0.443 > survey["band", 32, 6]


def test_rank_bound_is_welchs_for_coherence():
    for T, d in [(32, 12), (16, 6), (28, 7)]:
        assert least_dimension(T, "coherence", welch_bound(T, d) + 1e-6) == d
        assert least_dimension(T, "coherence", welch_bound(T, d) - 1e-3) == d + 1


def two_overlaps(low: float, high: float, T: int = 6) -> torch.Tensor:
    """Unit vectors in R^T with overlaps `low` and `high` only."""
    gram = torch.full((T, T), low, dtype=torch.float64)
    gram[: T // 2, : T // 2] = gram[T // 2 :, T // 2 :] = high
    return torch.linalg.cholesky(gram.fill_diagonal_(1.0))


@pytest.mark.parametrize("middle", [0.0, 0.1, -0.1])
def test_the_band_condition_is_exact(middle):
    """Counting by adding up overlaps fails at band = 1/(2L-3) and works just below it, wherever the band lies."""
    L = 5
    for factor, works in [(0.99, True), (1.01, False)]:
        half = factor / (2 * L - 3) * (1 - middle)
        tokens = two_overlaps(middle - half, middle + half)
        size = Size(6, L, 6, 6)
        circuit = Circuit(tokens, W_in=tokens.T)
        arguments = {"n_classes": None, "dtype": "float64", "mechanism": {"label": "IC"}}
        if works:
            assert assemble(circuit, "lin", size, **arguments).accuracy(n=200) == 1
        else:
            with pytest.raises(ValueError, match="counts 1 and 2 overlap"):
                assemble(circuit, "lin", size, **arguments)


def test_a_frame_that_does_not_exist_is_not_found():
    with pytest.raises(
        ValueError, match=r"6 vectors in R\^3 with coherence below 0.44; the best of 20 starts has 0.447"
    ):
        find_frame(6, 3, "coherence", 0.44, seed=0)
    assert math.isclose(find_frame(6, 3, "coherence", 0.45, seed=0).value, 5**-0.5, abs_tol=1e-3)
