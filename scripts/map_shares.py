"""What the retrained runs of Fig. 1 say by three shares: the table of docs/map.md.

python -m scripts.map_shares SWEEP     # a classified sweep's folder: writes docs/tables/map-shares.csv and the page
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from counting_interp.interp.sweep.statistics import verdict_of
from counting_interp.interp.sweep.table import RunRow, read_runs, write_runs
from counting_interp.interp.verdict.verdict import Verdict
from counting_interp.models.config import VARIANTS
from counting_interp.util.text import two_places

DOCS = Path(__file__).parents[1] / "docs"
TABLE, PAGE = DOCS / "tables" / "map-shares.csv", DOCS / "map.md"
PLACE = re.compile(r"<!-- shares -->\n.*<!-- end of shares -->", re.S)
HEAD = ("model", "d", "runs", "solved", "RC", "gated", "IC", "mixed", "share of RC", "share of IC", "share gated")


def shares_table(runs: Sequence[RunRow]) -> str:
    """One line for each model, at d >= T and below: counts of labels, and mean shares over the solved runs."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    for model in VARIANTS:
        for words, wide in ((">= T", True), ("< T", False)):
            here = [run for run in runs if run.cell.model == model and (run.cell.d >= run.cell.T) == wide]
            lines.append(f"| {model} | {words} | {' | '.join(_cells(here))} |")
    return "\n".join(lines)


def _cells(runs: Sequence[RunRow]) -> list[str]:
    verdicts = [verdict for run in runs if (verdict := verdict_of(run)) is not None]
    solved = [verdict for verdict in verdicts if verdict.mechanism != "unsolved"]
    labels = Counter(verdict.mechanism.group for verdict in solved)
    counts = [str(len(verdicts)), str(len(solved)), *(str(labels[name]) for name in ("RC", "gated", "IC", "mixed"))]
    return counts + [_mean(solved, name) for name in ("RC", "IC", "gated")]


def _mean(verdicts: Sequence[Verdict], name: str) -> str:
    values = [verdict.numbers[name] for verdict in verdicts if name in verdict.numbers]
    return two_places(fmean(values)) if values else "-"


def main(sweep: Path) -> None:
    runs = sorted(read_runs(sweep), key=lambda run: run.job.name)
    TABLE.write_text(write_runs([replace(run, checkpoint="") for run in runs]))
    text = f"<!-- shares -->\n{shares_table(runs)}\n<!-- end of shares -->"
    PAGE.write_text(PLACE.sub(lambda found: text, PAGE.read_text()))
    print(shares_table(runs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
