"""The data of Figs. 9 and 14, as two small tables that ship with the package in place of thousands of checkpoints.

    python -m scripts.figure_tables SWEEP

reads the checkpoints of a sweep's folder (`interp sweep run SWEEP --preset fig1`) and adds them to both tables. Of rows
of the same run or cell the more accurate one stays. A list of numbers is one column, separated by spaces.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from counting_interp.data import measured
from counting_interp.interp.figures.paper_panels import SIZES
from counting_interp.interp.sweep.statistics import SOLVED, group_by_cell
from counting_interp.interp.sweep.table import RunRow, read_runs
from counting_interp.models import CountingTransformer
from counting_interp.probes.output_curves import output_curves
from counting_interp.util.files import write_atomically
from counting_interp.util.tables import read_csv, write_csv

OUT = measured("spectra").parent
CURVES_OF = "lin+sftm"
KEYS = {"spectra": ("model", "d", "p", "run"), "output-curves": ("d", "p", "occurrences")}
Row = dict[str, object]


def spectra_of(runs: Iterable[RunRow], folder: Path) -> Iterator[Row]:
    """A row for every run with p, d >= T that ends at 99 % or above, as the caption of Fig. 14 says."""
    for run in runs:
        cell = run.cell
        if min(cell.p, cell.d) >= cell.T and run.final >= SOLVED and (folder / run.checkpoint).is_file():
            W_in = CountingTransformer.load(folder / run.checkpoint).state_dict()["blocks.0.mlp.W_in"].double()
            sigma = torch.linalg.svdvals(W_in)
            facts = {"model": cell.model, "d": cell.d, "p": cell.p, "run": run.run, "accuracy": round(run.final, 3)}
            yield {**facts, "sigma": _text((sigma / sigma[0]).tolist())}


def curves_of(runs: Iterable[RunRow], folder: Path) -> Iterator[Row]:
    """Rows for the most accurate run of each cell of the published sheet."""
    shown = [run for run in runs if run.cell.model == CURVES_OF and {run.cell.d, run.cell.p} <= {*SIZES}]
    groups = group_by_cell(run for run in shown if (folder / run.checkpoint).is_file())
    for cell, group in sorted(groups.items(), key=lambda pair: (pair[0].d, pair[0].p)):
        best = max(group, key=lambda run: run.final)
        logits = output_curves(CountingTransformer.load(folder / best.checkpoint)).logits
        behind = logits - logits.amax(-1, keepdim=True)
        for i in range(logits.shape[1]):
            numbers = {"mean": behind[:, i].mean(0), "low": behind[:, i].amin(0), "high": behind[:, i].amax(0)}
            facts = {"d": cell.d, "p": cell.p, "accuracy": round(best.final, 3), "occurrences": i + 1}
            yield {**facts, **{name: _text(values.tolist()) for name, values in numbers.items()}}


def make(folder: Path, out: Path = OUT) -> str:
    """Write both tables.

    Returns:
        A sentence with the number of runs and cells.
    """
    runs = [run for run in read_runs(folder) if run.checkpoint and run.cell.n_layers == 1 and not run.cell.frozen]
    new = {"spectra": list(spectra_of(runs, folder)), "output-curves": list(curves_of(runs, folder))}
    rows = {name: _added(out / f"{name}.csv", table, KEYS[name]) for name, table in new.items()}
    for name, table in rows.items():
        write_atomically(out / f"{name}.csv", write_csv(table).encode())
    cells = {(row["d"], row["p"]) for row in rows["output-curves"]}
    return f"singular values of {len(rows['spectra'])} runs, output curves of {len(cells)} of {len(SIZES) ** 2} cells"


def _added(path: Path, table: list[Row], keys: tuple[str, ...]) -> list[Row]:
    """The sorted rows of a file and of `table`; where keys are equal, the row of the more accurate run stays."""
    existing: list[Row] = read_csv(path, list(table[0]), dict, "a table of this script") if path.exists() else []
    by_accuracy = sorted((*existing, *table), key=lambda row: float(str(row["accuracy"])))
    merged = {tuple(str(row[key]) for key in keys): row for row in by_accuracy}
    return [
        merged[key] for key in sorted(merged, key=lambda key: [int(part) if part.isdigit() else part for part in key])
    ]


def _text(values: Iterable[float]) -> str:
    return " ".join(f"{value:.4g}" if abs(value) < 100 else f"{value:.0f}" for value in values)


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
