"""What selects the mechanism: the table and the picture of docs/open-question.md.

    interp sweep run SWEEP --preset fig1 --models bos+sftm,bos,dot --d 45 --p 45 --runs 40 --sampler paper \
        --set qk_scale=0.25 --classify                       # and 0.5, 1, 1.5, 2, into the same folder
    python -m scripts.attention_rate WORK docs/tables/attention-rate.csv
    python -m scripts.open_question [SWEEP]                  # writes tables/qk-scale.csv, the page's table, the picture
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.sweep.statistics import MECHANISMS, mechanism_of
from counting_interp.interp.sweep.table import RunRow, read_runs, write_runs
from counting_interp.probes.accuracy import proportion_interval
from counting_interp.util.text import percent_range, two_places
from scripts.ladder_table import bar_panels

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "open-question.md", DOCS / "pictures" / "open-question.svg"
SCALES, RATES = DOCS / "tables" / "qk-scale.csv", DOCS / "tables" / "attention-rate.csv"
SECTION = re.compile(r"<!-- table -->\n.*<!-- end of table -->", re.S)
LABELS = ("RC", "gated", "IC", "mixed")
HEAD = ("model", "lever", "factor", "runs", "solved", *LABELS, "IC of the solved", "mean RC, IC, gated")
Group = list[tuple[str, tuple[float, ...]]]  # the label and the three shares of each run


def groups() -> Iterator[tuple[str, str, float, Group]]:
    """Model, lever, factor and runs, in the order of the page."""
    runs = read_runs(SCALES)
    for model in ("bos+sftm", "bos", "dot"):
        for scale in sorted({run.cell.qk_scale for run in runs if run.cell.model == model}):
            chosen = [run for run in runs if (run.cell.model, run.cell.qk_scale) == (model, scale)]
            yield model, "start", scale, [(str(mechanism_of(run)), _shares(run)) for run in chosen]
    with open(RATES, newline="") as file:
        rows = list(csv.DictReader(file))
    for factor in sorted({float(row["factor"]) for row in rows}):
        lines = [row for row in rows if float(row["factor"]) == factor]
        shares = [tuple(float(row[name]) for name in ("RC", "IC", "gated") if row[name]) for row in lines]
        yield "bos+sftm", "rate", factor, [(row["mechanism"], of) for row, of in zip(lines, shares, strict=True)]


def _shares(run: RunRow) -> tuple[float, ...]:
    return tuple(run.measured[name] for name in ("verdict_rc", "verdict_ic", "verdict_gated") if name in run.measured)


def table() -> str:
    rows = [(model, lever, f"x {factor:g}", *_cells(runs)) for model, lever, factor, runs in groups()]
    lines = [f"| {' | '.join(cells)} |" for cells in (HEAD, *rows)]
    return "\n".join([lines[0], "|---" * len(HEAD) + "|", *lines[1:]])


def _cells(runs: Group) -> list[str]:
    solved = [(label, shares) for label, shares in runs if label != "unsolved"]
    labels = Counter(label for label, _ in solved)
    counts = [str(len(runs)), str(len(solved)), *(str(labels[name]) for name in LABELS)]
    if not solved:
        return [*counts, "-", "-"]
    low, high = proportion_interval(labels["IC"], len(solved))
    means = ", ".join(two_places(fmean(column)) for column in zip(*(shares for _, shares in solved), strict=True))
    return [*counts, f"{100 * labels['IC'] / len(solved):.0f} % ({percent_range(low, high)})", means]


def picture() -> Figure:
    """A panel for each model and lever, with a bar for each factor."""
    panels: dict[tuple[str, str], dict[str, Counter[str]]] = {}
    for model, lever, factor, runs in groups():
        panels.setdefault((model, lever), {})[f"×{factor:g}"] = Counter(label for label, _ in runs)
    titles = {(model, lever): f"{model}, {lever}" for model, lever in panels}
    figure = bar_panels({titles[key]: bars for key, bars in panels.items()}, len(panels), bargap=0.15).figure
    rows = [
        {"model": model, "lever": lever, "factor": factor, **{name: count[name] for name in MECHANISMS}}
        for (model, lever), bars in panels.items()
        for factor, count in bars.items()
    ]
    caption = "How runs count, by the size of the first W_Q and W_K and by their learning rate; above bars: runs."
    about = "start: factor on the first W_Q and W_K; rate: factor on their learning rate"
    title = "What selects the mechanism"
    return Figure(figure, name="open-question", title=title, caption=caption, table=rows, about=about)


def main(sweeps: Sequence[str]) -> None:
    from counting_interp.interp.pages.export import render

    if sweeps:
        runs = sorted(read_runs(*sweeps), key=lambda run: (run.cell.model, run.cell.qk_scale, run.run))
        SCALES.write_text(write_runs([replace(run, checkpoint="") for run in runs]))
    text = f"<!-- table -->\n{table()}\n<!-- end of table -->"
    PAGE.write_text(SECTION.sub(lambda _: text, PAGE.read_text()))
    images, missing = render([picture()], ["svg"])
    if missing is not None:
        raise SystemExit(missing)
    PICTURE.write_bytes(next(iter(images.values())))
    print(table())


if __name__ == "__main__":
    main(sys.argv[1:])
