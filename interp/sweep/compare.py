"""A sweep against the published numbers, cell by cell.

Both sides are means of few runs, so chance alone makes them differ by up to 3 sqrt(s_ref^2 / 5 + s_new^2 / n + 0.2^2).
s is the standard deviation of single runs, and 0.2 points are for reading the published figure. Where s is large
(p <= 3, and bos+sftm with d < T) that allows almost anything. So the best run is compared as well: does it reach 99 %?

How many cells would lie within by chance? The standard errors are themselves estimated, from five runs and from one or
two. Where these happen to lie close together, the tolerance is too narrow. So more than the 0.27 % of a normal
distribution are outside, about 6 % with two runs. `within_by_chance` makes the comparison many times with both sides
drawn from one normal distribution.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from counting_interp.data import published
from counting_interp.interp.sweep.statistics import SOLVED, CellStatistics
from counting_interp.models.config import VARIANTS
from counting_interp.util.errors import InterpError
from counting_interp.util.tables import cell_value, finite, read_csv

BUNDLED = published("phase_T32_L10")
REFERENCE_T, REFERENCE_L, REFERENCE_RUNS = 32, 10, 5
READING_ERROR, READING_ERROR_RANDOM = 0.2, 0.4  # points
LARGE_STD = 5.0
REFERENCE_EPOCHS, REFERENCE_SAMPLER = 500, "published"
_COLUMNS = ("model", "d", "p", "mean", "std", "best_lo", "best_hi", "marker", "params", "random_mean_est")
Key = tuple[str, int, int, bool]  # model, d, p, and whether embeddings are random


@dataclass(frozen=True)
class Published:
    """One cell of the published figures; accuracies in percent. Of random embeddings only the mean was published, as a
    difference, which is why it is read with a larger error."""

    mean: float
    std: float
    best: float | None
    solved: bool | None
    parameters: int | None
    reading_error: float = READING_ERROR


@dataclass(frozen=True)
class ComparedCell:
    """One cell on both sides."""

    ours: CellStatistics
    theirs: Published

    @property
    def deviation(self) -> float:
        return self.ours.mean - self.theirs.mean

    @property
    def tolerance(self) -> float:
        """How large a deviation chance explains."""
        return tolerance(self.theirs.std, self.ours.std, self.ours.runs, self.theirs.reading_error)

    @property
    def within(self) -> bool:
        return abs(self.deviation) <= self.tolerance

    @property
    def scattered(self) -> bool:
        """Whether one side's standard deviation is 5 points or more, so that the mean says little."""
        return max(self.theirs.std, self.ours.std or 0) >= LARGE_STD

    @property
    def solved(self) -> bool:
        """Whether some run of ours reached 99 % at some epoch."""
        return self.ours.best >= SOLVED

    @property
    def parameters_agree(self) -> bool | None:
        """None for random embeddings, of which only means were published."""
        return None if self.theirs.parameters is None else self.ours.parameters == self.theirs.parameters

    def to_dict(self) -> dict[str, Any]:
        ours, theirs = self.ours, self.theirs
        return {
            **{axis: getattr(ours.cell, axis) for axis in ("model", "frozen", "d", "p")},
            "runs": ours.runs,
            "mean": ours.mean,
            "mean_reference": theirs.mean,
            "std": ours.std,
            "std_reference": theirs.std,
            **{name: getattr(self, name) for name in ("deviation", "tolerance", "scattered")},
            "best": ours.best,
            "best_reference": theirs.best,
            "solved": self.solved,
            "solved_reference": theirs.solved,
            "parameters_agree": self.parameters_agree,
            "reading_error": theirs.reading_error,
            "within": self.within,
        }


@dataclass(frozen=True)
class Comparison:
    """All cells that both sides have, and what a reader has to know before trusting the comparison."""

    cells: tuple[ComparedCell, ...]
    warnings: tuple[str, ...] = ()

    def largest(self, n: int) -> list[ComparedCell]:
        """The cells furthest outside, in units of their tolerance."""
        return sorted(self.cells, key=lambda cell: -abs(cell.deviation) / cell.tolerance)[:n]

    def summary(self) -> dict[str, Any]:
        """Shares over all cells with learned embeddings, over those of them that scatter little or much, and by model;
        random embeddings stand by themselves."""
        learned = [cell for cell in self.cells if not cell.ours.cell.frozen]
        groups = {"all": learned}
        groups["scattered"] = [cell for cell in learned if cell.scattered]
        groups["steady"] = [cell for cell in learned if not cell.scattered]
        groups |= {model: [cell for cell in learned if cell.ours.cell.model == model] for model in VARIANTS}
        groups["random"] = [cell for cell in self.cells if cell.ours.cell.frozen]
        return {name: _summary(cells) for name, cells in groups.items() if cells}


def read_reference(path: str | Path | None = None) -> dict[Key, Published]:
    """The published cells, from the bundled file or another one of the same form."""
    rows = read_csv(BUNDLED if path is None else path, _COLUMNS, _published, "a reference table is needed")
    return {key: cell for row in rows for key, cell in row.items()}


def compare_cells(cells: Sequence[CellStatistics], reference: dict[Key, Published]) -> Comparison:
    """Compare what is comparable, T = 32 and L = 10 in one layer. Warnings name the other cells and what differs.

    Where some cells have the published sampler and budget, those with others are left out, too.

    Raises:
        InterpError: if no cell is comparable, or one cell has several settings.
    """
    same_settings = any(_differences(ours) <= {"frozen"} and _key(ours) in reference for ours in cells)
    allowed = {"frozen"} if same_settings else {"frozen", "sampler", "epochs"}
    pairs: dict[Key, list[CellStatistics]] = {}
    others: dict[str, int] = {}
    for ours in cells:
        if _differences(ours) <= allowed and _key(ours) in reference:
            pairs.setdefault(_key(ours), []).append(ours)
        else:
            label = ours.cell.setting.label
            others[label] = others.get(label, 0) + 1
    if not pairs:
        raise InterpError(
            f"the sweep has no cell in common with the reference (one layer, T={REFERENCE_T}, L={REFERENCE_L}); "
            "`interp sweep run DIR --preset fig1` makes them"
        )
    if any(len(same) > 1 for same in pairs.values()):
        raise InterpError("the sweep mixes samplers or numbers of epochs; compare them one at a time")
    compared = tuple(ComparedCell(ours, reference[key]) for key, (ours,) in pairs.items())
    return Comparison(compared, tuple(_warnings([cell.ours for cell in compared], others)))


def _key(ours: CellStatistics) -> Key:
    return ours.cell.model, ours.cell.d, ours.cell.p, ours.cell.frozen


def _differences(ours: CellStatistics) -> set[str]:
    """The axes in which a cell is not one of Fig. 1."""
    return {axis for axis, _ in ours.cell.setting.unusual(T=REFERENCE_T, L=REFERENCE_L)}


def _warnings(compared: Sequence[CellStatistics], others: dict[str, int]) -> Iterator[str]:
    budgets = sorted({ours.cell.epochs for ours in compared} - {REFERENCE_EPOCHS})
    if budgets:
        these = ", ".join(map(str, budgets))
        yield (f"budgets differ: {these} epochs here, {REFERENCE_EPOCHS} there; deviations say little about the models")
    samplers = sorted({ours.cell.sampler for ours in compared} - {REFERENCE_SAMPLER})
    if samplers:
        yield f"samplers differ: {', '.join(samplers)} here, {REFERENCE_SAMPLER} there, which never shows count L"
    if others:
        total = f"{sum(others.values())} cells have no published numbers of their kind and are left out"
        yield f"{total}: {'; '.join(others)}"


def tolerance(std_reference: Any, std: Any | None, runs: int, reading_error: float = READING_ERROR) -> Any:
    """Three standard errors of the difference, of numbers or of arrays. A single run is given their scatter."""
    our_std = std_reference if std is None else std
    return 3 * (std_reference**2 / REFERENCE_RUNS + our_std**2 / runs + reading_error**2) ** 0.5


def comparison_lines(result: Comparison, worst: int) -> list[str]:
    """As text: shares by group, then the largest deviations."""
    heads = f"{'':10} {'cells':>5} {'within':>7} {'share':>7} {'by chance':>10} "
    lines = [heads + f"{'median |dev|':>13} {'agree on >= 99 %':>17}"]
    for name, group in result.summary().items():
        agreed = group["agree_on_solved"]
        agree = "-" if agreed is None else f"{100 * agreed:.1f} %"
        share, chance = 100 * group["share"], 100 * group["share_by_chance"]
        lines.append(
            f"{name:10} {group['cells']:5} {group['within']:7} {share:5.1f} % {chance:8.1f} % "
            f"{group['median_deviation']:13.2f} {agree:>17}"
        )
    if learned := result.summary().get("all"):
        only_here, only_there = learned["solved_only_here"], learned["solved_only_there"]
        lines.append(f"best >= 99 % only here: {only_here} cells, only there: {only_there}")
        known = [cell.parameters_agree for cell in result.cells if cell.parameters_agree is not None]
        lines.append(f"parameter counts agree in {sum(known)} of {len(known)} cells")
    if worst:
        lines += ["", "largest deviations (in units of their tolerance):"]
        lines.append(f"{'model':9} {'d':>4} {'p':>4} {'runs':>4} {'ours':>14} {'published':>14} {'dev':>7} {'tol':>6}")
        lines += [_line(cell) for cell in result.largest(worst)]
    return lines + [f"note: {warning}" for warning in result.warnings]


def _line(cell: ComparedCell) -> str:
    where, runs = cell.ours.cell, cell.ours.runs
    ours = f"{cell.ours.mean:6.2f} ± " + ("  —  " if cell.ours.std is None else f"{cell.ours.std:5.2f}")
    theirs = f"{cell.theirs.mean:6.2f} ± {cell.theirs.std:5.2f}"
    mark = ("" if cell.within else " *") + (" random embeddings" if where.frozen else "")
    sides = f"{where.model:9} {where.d:4} {where.p:4} {runs:4} {ours:>14} {theirs:>14}"
    return f"{sides} {cell.deviation:+7.2f} {cell.tolerance:6.2f}{mark}"


def _summary(cells: Sequence[ComparedCell]) -> dict[str, Any]:
    within = sum(cell.within for cell in cells)
    solved = [(cell.solved, cell.theirs.solved) for cell in cells if cell.theirs.solved is not None]
    return {
        "cells": len(cells),
        "within": within,
        "share": within / len(cells),
        "share_by_chance": statistics.fmean(map(within_by_chance, cells)),
        "median_deviation": statistics.median(abs(cell.deviation) for cell in cells),
        "agree_on_solved": sum(here == there for here, there in solved) / len(solved) if solved else None,
        "solved_only_here": solved.count((True, False)),
        "solved_only_there": solved.count((False, True)),
    }


def _published(row: dict[str, str]) -> dict[Key, Published]:
    """Markers were never drawn for the last row and column of the grid; there the interval of the best map decides.
    Random embeddings are known by the published difference of means, to 0.4 points; their scatter is taken to be that
    of learned ones."""
    d, p, parameters = (cell_value(name, "int", row[name]) for name in ("d", "p", "params"))
    mean, std, low, high = (_percent(name, row) for name in ("mean", "std", "best_lo", "best_hi"))
    best = (low + high) / 2
    evaluated = row["marker"] != "not_evaluated"
    solved = row["marker"] in ("star", "dot") if evaluated else best >= SOLVED
    cells = {(row["model"], d, p, False): Published(mean, std, best, solved, parameters)}
    if row["random_mean_est"]:
        random_mean = _percent("random_mean_est", row)
        cells[row["model"], d, p, True] = Published(random_mean, std, None, None, None, READING_ERROR_RANDOM)
    return cells


def _percent(name: str, row: dict[str, str]) -> float:
    number = finite(name, row[name])
    if abs(number) > 1000:  # estimates may lie a little outside of 0 to 100
        raise ValueError(f"{name} is in percent and cannot be {row[name][:60]!r}")
    return number


DRAWS = 20_000


def within_by_chance(cell: ComparedCell) -> float:
    """The probability that a cell lies within its tolerance if both sides are the same experiment.

    Both are then as many runs of one normal distribution, with the pooled standard deviation, and the error of reading.
    """
    ours, theirs = cell.ours, cell.theirs
    freedom = REFERENCE_RUNS - 1, ours.runs - 1
    variance = (theirs.std**2 * freedom[0] + (ours.std or 0.0) ** 2 * freedom[1]) / sum(freedom)
    return _within(math.sqrt(variance), ours.runs, theirs.reading_error)


@cache
def _within(std: float, runs: int, reading_error: float) -> float:
    (their_mean, their_std), (our_mean, our_std), (read, _) = _standard(runs)
    deviation = std * (our_mean - their_mean) + reading_error * read
    scaled = None if our_std is None else std * our_std
    return float((abs(deviation) <= tolerance(std * their_std, scaled, runs, reading_error)).mean())


@cache
def _standard(runs: int) -> list[tuple[Any, Any]]:
    """Means and standard deviations of many draws of the standard normal distribution, the same each time.

    Each is of as many values as they have runs, as we have runs, and of one, for the reading.
    """
    rng = np.random.default_rng(0)
    drawn = [rng.standard_normal((DRAWS, number)) for number in (REFERENCE_RUNS, runs, 1)]
    return [(values.mean(1), values.std(1, ddof=1) if values.shape[1] > 1 else None) for values in drawn]
