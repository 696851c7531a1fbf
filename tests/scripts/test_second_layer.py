"""What docs/map.md says of a second layer is what its table says."""

from __future__ import annotations

from collections import Counter
from statistics import fmean

from counting_interp.interp.sweep.statistics import mechanism_of
from counting_interp.interp.sweep.table import read_runs
from tests.helpers import ROOT


def test_one_layer_against_two() -> None:
    text = " ".join((ROOT / "docs" / "map.md").read_text(encoding="utf-8").split())
    runs = [run for run in read_runs(ROOT / "docs" / "tables" / "second-layer.csv") if mechanism_of(run) != "unsolved"]
    one, two = ([run for run in runs if run.cell.n_layers == layers] for layers in (1, 2))
    labels = [Counter(mechanism_of(run) for run in group) for group in (one, two)]
    columns = [f"verdict_{name}" for name in ("rc", "ic", "gated")]
    shares = [[fmean(run.measured[column] for run in group) for column in columns] for group in (one, two)]
    said = ["RC {:.2f}, IC {:.2f}, gated {:.2f}".format(*means) for means in shares]
    counted = f"{labels[0]['RC']} RC, {labels[0]['IC']} IC and {labels[0]['mixed']} mixed of {len(one)} solved runs"
    assert f"{counted}, with mean shares {said[0]}" in text
    counted = f"{labels[1]['RC']} RC, {labels[1]['IC']} IC, {labels[1]['gated']} gated and {labels[1]['mixed']} mixed"
    assert f"{counted} of {len(two)}, with {said[1]}" in text
