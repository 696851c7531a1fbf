"""What Figs. 9 and 14 need of thousands of weights, as two small tables that come with the package.

    python -m counting_interp.interp.figures.checkpoint_tables SWEEP

reads the checkpoints of a sweep's folder (`interp sweep run SWEEP --preset fig1`) and writes both anew. A list of
numbers stands in one column, separated by spaces.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from counting_interp.data import measured
from counting_interp.interp.sweep.statistics import SOLVED, group_by_cell
from counting_interp.interp.sweep.table import RunRow, read_runs
from counting_interp.models import CountingTransformer
from counting_interp.probes.output_curves import output_curves
from counting_interp.util.files import write_atomically
from counting_interp.util.tables import cell_value, read_csv, write_csv

DATA = measured("spectra").parent
SIZES = (2, 4, 8, 16, 32, 64, 128)  # of the published sheet of output curves, on both axes
CURVES_OF = "lin+sftm"


@dataclass(frozen=True)
class SpectrumRow:
    """Singular values of the first feed-forward matrix of a run, over the largest, falling."""

    model: str
    d: int
    p: int
    run: int
    accuracy: float
    sigma: tuple[float, ...]


@dataclass(frozen=True)
class CurveRow:
    """Logits minus the best one at so many occurrences, by count: mean, least and most over the fillers."""

    d: int
    p: int
    accuracy: float
    occurrences: int
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def spectra(path: Path = DATA / "spectra.csv") -> list[SpectrumRow]:
    def of_row(row: Mapping[str, str]) -> SpectrumRow:
        sizes = {name: cell_value(name, "int", row[name]) for name in ("d", "p", "run")}
        accuracy = cell_value("accuracy", "float", row["accuracy"])
        return SpectrumRow(model=row["model"], **sizes, accuracy=accuracy, sigma=_numbers(row["sigma"]))

    return read_csv(path, ["model", "d", "p", "run", "accuracy", "sigma"], of_row, __doc__ or "")


def curves(path: Path = DATA / "output-curves.csv") -> list[CurveRow]:
    def of_row(row: Mapping[str, str]) -> CurveRow:
        sizes = {name: cell_value(name, "int", row[name]) for name in ("d", "p", "occurrences")}
        mean, low, high = (_numbers(row[name]) for name in ("mean", "low", "high"))
        accuracy = cell_value("accuracy", "float", row["accuracy"])
        return CurveRow(**sizes, accuracy=accuracy, mean=mean, low=low, high=high)

    return read_csv(path, ["d", "p", "accuracy", "occurrences", "mean", "low", "high"], of_row, __doc__ or "")


def spectra_of(runs: Iterable[RunRow], folder: Path) -> Iterator[dict[str, object]]:
    """A row for every run with p, d >= T that ends at 99 % or above, as the caption of Fig. 14 says."""
    for run in runs:
        cell = run.cell
        if min(cell.p, cell.d) >= cell.T and run.final >= SOLVED and (folder / run.checkpoint).is_file():
            W_in = CountingTransformer.load(folder / run.checkpoint).state_dict()["blocks.0.mlp.W_in"].double()
            sigma = torch.linalg.svdvals(W_in)
            facts = {"model": cell.model, "d": cell.d, "p": cell.p, "run": run.run, "accuracy": round(run.final, 3)}
            yield {**facts, "sigma": _text((sigma / sigma[0]).tolist())}


def curves_of(runs: Iterable[RunRow], folder: Path) -> Iterator[dict[str, object]]:
    """Rows for the most accurate run of each cell of the published sheet."""
    there = [run for run in runs if run.cell.model == CURVES_OF and {run.cell.d, run.cell.p} <= {*SIZES}]
    groups = group_by_cell(run for run in there if (folder / run.checkpoint).is_file())
    for cell, group in sorted(groups.items(), key=lambda pair: (pair[0].d, pair[0].p)):
        best = max(group, key=lambda run: run.final)
        logits = output_curves(CountingTransformer.load(folder / best.checkpoint)).logits
        behind = logits - logits.amax(-1, keepdim=True)
        for i in range(logits.shape[1]):
            numbers = {"mean": behind[:, i].mean(0), "low": behind[:, i].amin(0), "high": behind[:, i].amax(0)}
            facts = {"d": cell.d, "p": cell.p, "accuracy": round(best.final, 3), "occurrences": i + 1}
            yield {**facts, **{name: _text(values.tolist()) for name, values in numbers.items()}}


def make(folder: Path, out: Path = DATA) -> str:
    """Write both tables; says of how many runs they are."""
    runs = [run for run in read_runs(folder) if run.checkpoint and run.cell.n_layers == 1 and not run.cell.frozen]
    runs.sort(key=lambda run: (run.cell.model, run.cell.d, run.cell.p, run.run))
    singular, logits = list(spectra_of(runs, folder)), list(curves_of(runs, folder))
    write_atomically(out / "spectra.csv", write_csv(singular).encode())
    write_atomically(out / "output-curves.csv", write_csv(logits).encode())
    cells = {(row["d"], row["p"]) for row in logits}
    return f"singular values of {len(singular)} runs, output curves of {len(cells)} of {len(SIZES) ** 2} cells"


def _text(values: Iterable[float]) -> str:
    return " ".join(f"{value:.4g}" if abs(value) < 100 else f"{value:.0f}" for value in values)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
