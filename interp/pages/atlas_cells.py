"""What an atlas says of a sweep: its settings, the maps of each, and of every cell its runs, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from counting_interp.interp.figures.mechanism_map import letters
from counting_interp.interp.figures.panels import ROWS
from counting_interp.interp.pages.atlas_words import against, evidence, run_words
from counting_interp.interp.sweep.grid import Setting, SweepCell
from counting_interp.interp.sweep.mechanisms import CellMechanisms, mechanism_of, mechanisms, verdict_of
from counting_interp.interp.sweep.settings import by_setting
from counting_interp.interp.sweep.table import CellStatistics, RunRow, by_cell, group_by_cell

ORDER = tuple(model for row in ROWS for model in row)


def settings_of(runs: Sequence[RunRow]) -> list[dict[str, Any]]:
    """One entry for each setting (T, L, layers, embeddings, sampler, epochs), the one with most runs first."""
    groups = by_setting(by_cell(runs))
    found = {cell.cell: cell for cell in mechanisms(runs)}
    of_cell = group_by_cell(runs)
    ordered = sorted(groups.items(), key=lambda pair: -sum(cell.runs for cell in pair[1]))
    return [_setting(setting, cells, found, of_cell) for setting, cells in ordered]


def _setting(
    setting: Setting,
    cells: Sequence[CellStatistics],
    found: dict[SweepCell, CellMechanisms],
    of_cell: dict[SweepCell, list[RunRow]],
) -> dict[str, Any]:
    models = sorted({cell.cell.model for cell in cells}, key=_place)
    runs = [run for cell in cells for run in of_cell[cell.cell]]
    return {
        "name": setting.slug,
        "label": setting.label,
        "T": setting["T"],
        "L": setting["L"],
        "d": sorted({cell.cell.d for cell in cells}),
        "p": sorted({cell.cell.p for cell in cells}),
        "models": models,
        "runs": len(runs),
        "classified": sum(mechanism_of(run) is not None for run in runs),
        "verified": sum("proof_share" in run.measured for run in runs),
        "versions": sorted({run.version or "not noted" for run in runs}),
        "cells": [_cell(cell, found.get(cell.cell), of_cell[cell.cell]) for cell in cells],
    }


def _place(model: str) -> tuple[int, str]:
    return (ORDER.index(model) if model in ORDER else len(ORDER), model)


def _cell(cell: CellStatistics, found: CellMechanisms | None, runs: Sequence[RunRow]) -> dict[str, Any]:
    place = {"model": cell.cell.model, "d": cell.cell.d, "p": cell.cell.p}
    known: dict[str, Any] = {"accuracy": round(cell.mean, 3), "parameters": cell.parameters}
    if found is not None:
        counts = {name: number for name, number in found.counts.items() if number}
        known |= {"main": found.main, "share": round(found.share, 3), "letters": letters(found), "counts": counts}
        numbers = {**found.shares, "proved": found.proved}
        known |= {name: round(number, 4) for name, number in numbers.items() if number is not None}
    return {**place, **known, "runs": [dict(_run(run)) for run in sorted(runs, key=lambda run: run.run)]}


def _run(run: RunRow) -> Iterator[tuple[str, Any]]:
    """What the page shows of a run; what is not known is left out."""
    yield from (("run", run.run), ("seed", run.seed), ("final", round(run.final, 3)), ("best", round(run.best, 3)))
    measured, verdict = run.measured, verdict_of(run)
    if verdict is not None:
        yield from (("mechanism", verdict.mechanism.group), ("label", verdict.mechanism.value))
        yield from (("says", run_words(verdict)), ("evidence", evidence(run, verdict)), ("against", against(verdict)))
        yield (
            "estimates",
            [
                [estimate.name, *(round(number, 3) for number in (estimate.value, estimate.low, estimate.high))]
                for estimate in verdict.estimates
            ],
        )
    if isinstance(share := measured.get("proof_share"), (int, float)):
        yield from (("proved", round(float(share), 4)), ("proof", str(measured.get("proof_proof", ""))))
