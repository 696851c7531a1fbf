"""The configuration: names, sizes, counts of weights, and errors that name the value received."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counting_interp.models import CountingConfig
from counting_interp.models.config import VARIANTS

SIZES = {"T": 32, "L": 10, "d": 45, "p": 2}


@pytest.mark.parametrize("name", VARIANTS)
def test_parse_and_name_are_inverse(name: str) -> None:
    assert CountingConfig.parse(name, **SIZES).name == name


def test_the_issue_s_example() -> None:
    config = CountingConfig(mixing="bos", softmax=True, T=32, L=10, d=45, p=2, n_layers=1)
    assert config == CountingConfig.parse("bos+sftm", **SIZES)
    assert (config.name, config.vocab, config.n_positions, config.classes) == ("bos+sftm", 33, 11, 10)


@given(
    name=st.sampled_from(VARIANTS),
    L=st.integers(2, 30),
    more=st.integers(0, 30),
    d=st.integers(1, 200),
    p=st.integers(1, 200),
    n_layers=st.sampled_from([1, 2]),
    published=st.booleans(),
    frozen=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**63 - 1),
)
def test_json_round_trip(name, L, more, d, p, n_layers, published, frozen, dtype, seed) -> None:
    sizes = {"T": L + more, "L": L, "d": d, "p": p, "n_layers": n_layers, "n_classes": L + published}
    config = CountingConfig.parse(name, **sizes, frozen_embeddings=frozen, dtype=dtype, seed=seed)
    assert CountingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


BAD = [
    ({"mixing": "mean"}, r"mixing must be one of lin, dot, bos, got 'mean'"),
    ({"T": 1, "L": 1}, r"T must be between 2 and 4096, got 1"),
    ({"L": 1}, r"L must be between 2 and 4096, got 1"),
    ({"L": 33}, r"L must be at most T.*got L=33, T=32"),
    ({"d": 0}, r"d must be between 1 and 4096, got 0"),
    ({"p": 10**9}, r"p must be between 1 and 4096, got 1000000000"),
    ({"d": 4096, "p": 4096, "n_layers": 2}, r"weights; at most 67,108,864 are allowed"),
    ({"n_layers": 3}, r"n_layers must be 1 or 2, got 3"),
    ({"n_classes": 12}, r"n_classes must be L=10 or L\+1=11, got 12"),
    ({"dtype": "float16"}, r"dtype must be one of float32, float64, got 'float16'"),
    ({"seed": -1}, r"seed must be between 0 and 2\*\*63 - 1, got -1"),
    ({"T": "32"}, r"T must be an integer, got '32'"),
    ({"d": 4.5}, r"d must be an integer, got 4.5"),
    ({"p": True}, r"p must be an integer, got True"),
    ({"T": float("nan")}, r"T must be an integer, got nan"),
    ({"softmax": 1}, r"softmax must be true or false, got 1"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[str(change) for change, _ in BAD])
def test_bad_values_are_named(change, message) -> None:
    with pytest.raises(ValueError, match=message):
        CountingConfig(**{"mixing": "bos", "softmax": True, **SIZES, **change})


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(ValueError, match="unknown configuration field 'heads'"):
        CountingConfig.from_dict({"mixing": "dot", "softmax": False, **SIZES, "heads": 2})
    with pytest.raises(ValueError, match="lacks d, softmax"):
        CountingConfig.from_dict({"mixing": "dot", "T": 8, "L": 4, "p": 2})
    with pytest.raises(ValueError, match="must be one of lin, lin"):
        CountingConfig.parse("sum", **SIZES)


def test_replace_lets_the_classes_follow_the_length() -> None:
    assert CountingConfig.parse("dot", **SIZES).replace(L=5).classes == 5
    assert CountingConfig.parse("dot", **SIZES, n_classes=11).replace(L=5).classes == 6


def test_parameter_counts_are_the_published_ones() -> None:
    """All 1,176 cells of the published grid, T = 32, L = 10, with the published L + 1 classes."""
    with open(Path(__file__).parent / "published_parameter_counts.csv") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(rows) == 1176
    for row in rows:
        config = CountingConfig.parse(row["model"], T=32, L=10, d=int(row["d"]), p=int(row["p"]), n_classes=11)
        assert config.num_parameters == int(row["params"])


def test_frozen_embeddings_are_not_counted() -> None:
    learned = CountingConfig.parse("bos", **SIZES)
    assert learned.num_parameters - learned.replace(frozen_embeddings=True).num_parameters == 33 * 45
