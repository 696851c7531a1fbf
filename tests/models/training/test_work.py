"""Training runs that would not end are refused before they begin; those of the paper never are."""

from __future__ import annotations

import re

import pytest

from counting_interp.models import CountingConfig
from counting_interp.models.training import Recipe
from counting_interp.models.training.engine import too_large


@pytest.mark.parametrize("name", ["lin", "dot+sftm", "bos", "dot+sftm+values+4heads+norm+gelu"])
@pytest.mark.parametrize(("T", "L", "size"), [(32, 10, 128), (64, 30, 128), (512, 10, 32), (100, 100, 64)])
def test_what_is_trained_in_practice_is_not_refused(name, T, L, size):
    config = CountingConfig.parse(name, T=T, L=L, d=size, p=size)
    assert too_large(config, Recipe(), together=16) is None


@pytest.mark.parametrize(
    ("name", "sizes", "recipe", "reason"),
    [
        ("bos+sftm", (4096, 4096, 1, 1), {}, r"training needs 10 GB for bos\+sftm, T=4096, L=4096, d=1, p=1 and bat"),
        ("dot", (32, 10, 8, 8), {"batch_size": 10**9}, r"training needs [\d,]+ GB"),
        ("dot", (32, 10, 8, 8), {"sequences": 10**9}, "training needs 298 GB"),
        ("dot+sftm+values", (1000, 1000, 8, 8), {"batch_size": 512}, r"training needs \d\d GB"),
        (
            "dot+sftm+values",
            (1000, 1000, 64, 64),
            {"sequences": 100_000, "batch_size": 16},
            r"an epoch of 100,000 sequences takes about 1 h \d+ min for dot\+sftm\+values, T=1000",
        ),
        ("lin", (4000, 4000, 1, 1), {}, r"a checkpoint on the way, of lin, .* would take 192,[\d,]+ of at most"),
    ],
)
def test_what_would_not_end_is_refused_in_one_sentence(name, sizes, recipe, reason):
    config = CountingConfig.parse(name, **dict(zip("TLdp", sizes, strict=True)))
    found = too_large(config, Recipe(**recipe))
    assert found is not None
    assert re.match(reason, found), found
