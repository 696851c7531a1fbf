"""The labels of all bundled runs are the names of their shares, and one version measured them all."""

from __future__ import annotations

import pytest

from counting_interp.data import runs
from counting_interp.interp.sweep.table import read_runs
from counting_interp.probes.shares import name_of
from tests.helpers import ROOT

TABLES = [runs(name) for name in ("fig1", "T15", "T64", "L5", "L15", "L30", "random", "two-layers")]
TABLES += [ROOT / "docs" / "tables" / name for name in ("qk-scale.csv", "second-layer.csv")]
BY_DIRECTION = ("either suffices", "both needed", "undecided")  # which the shares alone do not say
CLOSE = 5e-5  # shares of some tables have four digits


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_labels_are_the_names_of_the_shares(table):
    named = 0
    for run in read_runs(table):
        label = run.measured.get("verdict_leans") or run.measured.get("verdict_mechanism")
        shares = [run.measured.get(f"verdict_{name}") for name in ("rc", "ic", "gated")]
        if label and label not in (*BY_DIRECTION, "unsolved") and all(share is not None for share in shares):
            names = {name_of(*(share + shift for share in shares)) for shift in (-CLOSE, 0, CLOSE)}
            assert label in names, (run.cell, shares)
            named += 1
    assert named or all("verdict_mechanism" not in run.measured for run in read_runs(table))


def test_all_were_measured_by_one_version():
    versions = {run.measured.get("verdict_version") for table in TABLES[:-2] for run in read_runs(table)} - {None}
    assert len(versions) == 1
