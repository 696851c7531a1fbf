"""Numbers of the README are those of their tables."""

from __future__ import annotations

import csv
from typing import Any

from tests.helpers import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def table(name: str) -> list[dict[str, Any]]:
    with open(ROOT / "docs" / "tables" / name, newline="") as file:
        return list(csv.DictReader(file))


def test_the_verdict_on_models_of_one_known_mechanism():
    rows = [row for row in table("verdict-truths.csv") if float(row["accuracy"]) >= 0.95]
    pure = [row for row in rows if row["truth"] in ("RC", "IC", "gated")]
    unlabelled = [row for row in pure if row["label"] == ""]
    assert [row for row in pure if row["label"] not in ("", row["truth"], "IC, sharpened by attention")] == []
    assert f"No false label on {len(pure)} models of one known mechanism; {len(unlabelled)} of them get none." in README


def test_kinds_of_transformers():
    assert len(table("own-models.csv")) == 15
    assert "Fifteen of fifteen kinds" in README
