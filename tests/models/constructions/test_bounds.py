"""The paper's formulas against the table of their values, `theory_numbers.csv` (from the reference data)."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from counting_interp.models import CountingTransformer
from counting_interp.models.constructions import bounds as known
from counting_interp.models.constructions import construct
from counting_interp.models.constructions.bounds import (
    bounds,
    certified_dimension,
    paper_dimension,
    trained_dimension,
)
from counting_interp.models.constructions.circuit import boundaries, value_ranges, value_table
from counting_interp.models.constructions.frames import welch_bound
from scripts.zoo import PROVED, proved_name
from tests.helpers import assert_close
from tests.models.constructions.temperatures import arc_gap, binary_gap, smallest_temperature

ROWS = list(csv.DictReader((Path(__file__).parent / "theory_numbers.csv").read_text().splitlines()))


def rows(start: str) -> list[dict[str, str]]:
    matching = [row for row in ROWS if row["quantity"].startswith(start)]
    assert matching, start
    return matching


@pytest.mark.parametrize(
    ("quantity", "variants", "p"),
    [
        ("d bound lin/lin+sftm p=T", ("lin", "lin+sftm"), "T"),
        ("d bound dot/bos p=1", ("dot", "bos"), 1),
        ("d softmax construction", ("bos+sftm",), 1),
        ("d softmax construction", ("dot+sftm", "bos+sftm"), "T"),
    ],
)
def test_bounds_on_the_dimension(quantity, variants, p):
    for row in rows(quantity):
        T, L = int(row["T"]), int(row["L"])
        for variant in variants:
            assert paper_dimension(variant, T if p == "T" else p, T, L) == int(row["value"]), row


def test_bound_for_squared_overlaps():
    for row in [row for row in ROWS if row["quantity"] == "d bound dot/bos p=T"]:
        T, L = int(row["T"]), int(row["L"])
        assert paper_dimension("dot", T, T, L) == paper_dimension("bos", T, T, L) == int(row["value"]), row


def test_no_bound_where_the_paper_has_no_construction():
    assert paper_dimension("lin", 1, 32, 10) is None
    assert paper_dimension("dot+sftm", 31, 32, 10) is None


def test_welch_bounds():
    for row in rows("Welch bound"):
        d = int(row["note"].removeprefix("d="))
        assert f"{welch_bound(int(row['T']), d):.4f}" == row["value"]


def test_smallest_temperatures():
    for row in rows("smallest kappa, binary"):
        kappa = smallest_temperature(binary_gap(int(row["T"].removeprefix("d'="))), int(row["L"]))
        assert f"{kappa:.3f}" == row["value"]
    for row in rows("smallest kappa, d=4"):
        kappa = smallest_temperature(arc_gap(int(row["T"])), int(row["L"]))
        assert abs(kappa - float(row["value"])) < 0.1


def ranges_of(name: str, **options):
    model = construct(name, dtype="float64", **options)
    return value_ranges(value_table(dict(model.state_dict()), model.config))


def test_values_and_boundaries_of_dot_sftm():
    (row,) = rows("gamma_k dot+sftm")
    gammas = [float(value) for value in row["value"].split()]
    edges = [float(value) for value in re.findall(r"0\.\d+", row["note"])]
    low, high = ranges_of("ic-dot+sftm")
    assert_close(low, gammas, 1e-6)
    assert_close(high, gammas, 1e-6)
    assert_close(boundaries((low, high))[0], edges, 1e-6)


def test_bos_attention_of_bos_sftm():
    (row,) = rows("BOS attention")
    low, high = ranges_of("rc-bos+sftm")  # y = (T - 1) a + 1
    assert_close((low - 1) / 31, [float(value) for value in row["value"].split()], 1e-5)
    assert_close(low, high, 1e-12)


def test_ours_at_the_papers_size():
    """What README and docs say we reach; the paper's text could not build 29, 30 and 8."""
    ours = {(row.variant, row.p): (row.paper_d, row.our_d, row.trained_d) for row in bounds(32, 10)}
    assert ours == {
        ("lin", 1): (None, None, None),
        ("lin", 32): (29, 29, None),
        ("lin+sftm", 1): (None, None, None),
        ("lin+sftm", 32): (29, 29, None),
        ("dot", 1): (30, 30, None),
        ("dot", 32): (8, 8, 8),
        ("dot+sftm", 1): (None, None, None),
        ("dot+sftm", 32): (8, 6, 23),
        ("bos", 1): (30, 30, None),
        ("bos", 32): (8, 8, 8),
        ("bos+sftm", 1): (8, 3, 4),
        ("bos+sftm", 32): (8, 3, 6),
    }


def test_training_is_known_at_one_size_only():
    assert trained_dimension("lin", 64) == 32
    assert trained_dimension("lin", 90) == 32  # the largest trained p up to 90 is 64
    assert known.bound("bos+sftm", 1, 15, 10).trained_d is None
    assert known.bound("bos", 64, 15, 10).certified_d is None


@pytest.mark.parametrize("name", [proved_name(parent) for parent in PROVED])
def test_the_certified_frontier_is_not_above_the_bundled_models(name):
    config = CountingTransformer.load(name).config
    smallest = certified_dimension(config.name, config.p)
    assert smallest is not None
    assert smallest <= config.d


def test_refuses_sizes_without_a_task():
    with pytest.raises(ValueError, match="3 <= L <= T, got L=20, T=10"):
        bounds(10, 20)
    with pytest.raises(ValueError, match="p must be at least 1, got 0"):
        bounds(10, 5, [0])
