"""The table in docs/constructions.md says what is built."""

from __future__ import annotations

import re

import pytest

from counting_interp.models.constructions import CATALOGUE, construct, sizes
from counting_interp.models.constructions.circuit import boundaries, value_ranges, value_table
from tests.helpers import ROOT

TABLE = re.findall(
    r"^\| `([a-z0-9+-]+)` \| ([a-z+]+) \| (RC|IC|mixed) \| (\d+) \| (\d+) \| ([\d.]+) \|",
    (ROOT / "docs" / "constructions.md").read_text(),
    re.MULTILINE,
)


def test_every_construction_is_listed_with_its_sizes():
    listed = [(name, model, mechanism, int(d), int(p)) for name, model, mechanism, d, p, _ in TABLE]
    built = [tuple(row[key] for key in ("name", "model", "mechanism", "d", "p")) for row in sizes(32, 10)]
    assert sorted(listed) == sorted(built)


@pytest.mark.parametrize(("name", "room"), [(row[0], float(row[5])) for row in TABLE])
def test_the_gaps_are_as_wide_as_listed(name, room):
    """Searched frames may come out a little different elsewhere."""
    model = construct(name)
    low, high = value_ranges(value_table(dict(model.state_dict()), model.config))
    measured = 2 * abs(boundaries((low, high))[1]) / (float(high.max() - low.min()) / 9)
    tolerance = 0.5 * room if CATALOGUE[name].least_d else 0.001
    assert abs(measured - room) <= tolerance
