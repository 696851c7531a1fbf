"""The atlas: maps of a sweep, what is known of each cell in words and numbers, and models that run in the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

from counting_interp.interp.figures.mechanism_map import PALEST, letters
from counting_interp.interp.figures.panels import ROWS
from counting_interp.interp.pages import asset, page
from counting_interp.interp.pages.atlas_models import Live
from counting_interp.interp.pages.live import live_script
from counting_interp.interp.sweep.grid import Setting, SweepCell
from counting_interp.interp.sweep.statistics import (
    CellMechanisms,
    CellStatistics,
    by_cell,
    by_setting,
    group_by_cell,
    mechanism_of,
    mechanisms,
    verdict_of,
)
from counting_interp.interp.sweep.table import RunRow
from counting_interp.interp.verdict.verdict import Verdict
from counting_interp.util.errors import InterpError
from counting_interp.util.text import percent

GENERATOR = "interp atlas"
TITLE = "Atlas of counting"
LIMIT = 15_000_000  # bytes of the page
PLACE = 200  # bytes, at most, that it takes to say where a model is
BODY = """
<header><h1>Atlas of counting</h1><p class="note" id="about"></p></header>
<div class="controls"><label class="field" id="settings">Setting <select></select></label>
<div role="group" aria-label="What the maps show" id="views"></div></div>
<div id="legend" class="legend"></div>
<div class="atlas"><section id="maps" aria-label="Maps: p to the right, d upwards; arrow keys walk from cell to cell">
</section><section id="cell" aria-label="The chosen cell" aria-live="off"></section></div>
"""


def atlas_html(runs: Sequence[RunRow], models: Iterable[Live], source: str, limit: int = LIMIT) -> str:
    """The whole page, with as many of the models as there is room for; `source` says where the runs are from."""
    settings = settings_of(runs)
    room = limit - len(_page(settings, [], source).encode())
    if room < 0:
        raise InterpError(f"the page would be larger than {limit / 1e6:.0f} MB; make one of fewer sweeps")
    live: list[Live] = []
    for model in models:
        room -= len(model.payload) + PLACE
        if room < 0:
            break
        live.append(model)
    _attach(settings, live)
    return _page(settings, live, source)


def _page(settings: list[dict[str, Any]], live: Sequence[Live], source: str) -> str:
    atlas = {
        "source": source,
        "palest": PALEST,
        "settings": settings,
        "live": len(live),
    }
    data = {"atlas": atlas, **{f"live-{number}": model.payload for number, model in enumerate(live)}}
    scripts = [live_script(), *(asset(name) for name in ("maps.js", "cell.js", "atlas.js"))]
    return page(TITLE, GENERATOR, [BODY], data, scripts, kind="wide")


def _attach(settings: list[dict[str, Any]], live: Sequence[Live]) -> None:
    """Tell each cell which model of the page is its own."""
    known = {(one.cell.setting.slug, one.cell.model, one.cell.d, one.cell.p): i for i, one in enumerate(live)}
    for setting in settings:
        for cell in setting["cells"]:
            number = known.get((setting["name"], cell["model"], cell["d"], cell["p"]))
            if number is not None:
                cell["live"] = {"id": f"live-{number}", "about": live[number].about, "run": live[number].run}


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
        known |= {name: round(number, 4) for name, number in found.shares.items() if number is not None}
    proved = [share for run in runs if (share := _number(run, "proof_share")) is not None]
    if proved:
        known["proved"] = round(fmean(proved), 4)
    return {**place, **known, "runs": [dict(_run(run)) for run in sorted(runs, key=lambda run: run.run)]}


def _run(run: RunRow) -> Iterator[tuple[str, Any]]:
    """What the page shows of a run; what is not known is left out."""
    yield from (("run", run.run), ("seed", run.seed), ("final", round(run.final, 3)), ("best", round(run.best, 3)))
    measured, verdict = run.measured, verdict_of(run)
    if verdict is not None:
        yield from (("mechanism", verdict.mechanism.group), ("label", verdict.mechanism.value))
        yield from (("says", run_words(verdict)), ("evidence", evidence(run, verdict)), ("against", against(verdict)))
        estimates = [(each.name, each.value, each.low, each.high) for each in verdict.estimates]
        yield "estimates", [[name, *(round(number, 3) for number in numbers)] for name, *numbers in estimates]
    if isinstance(share := measured.get("proof_share"), (int, float)):
        yield from (("proved", round(float(share), 4)), ("proof", str(measured.get("proof_proof", ""))))


def run_words(verdict: Verdict) -> str:
    """What the mechanism means, or what an unsolved run leans to."""
    return verdict.mechanism.words + (f" It leans towards {verdict.leans}." if verdict.leans else "")


def evidence(run: RunRow, verdict: Verdict) -> list[str]:
    """One sentence for each kind of number that the table has."""
    lines = [] if verdict.shares else ["Judged by the rule of version 0.2, which measured no shares."]
    share = _number(run, "proof_share")
    if share is not None:
        wrong, cells = _number(run, "proof_wrong"), _number(run, "proof_cells")
        counted = "" if wrong is None or cells is None else f"; in {wrong:.0f} of {cells:.0f} a wrong answer was found"
        counts = _number(run, "proof_counts")
        kind = "token and count" if counts is None else f"token and count up to {counts:.0f}"
        lines.append(f"Of its cells ({kind}, for lin also the position) {percent(share)} are proved right{counted}.")
        precision = run.measured.get("proof_precision")
        if precision and counts is not None:
            from counting_interp.interp.proof.checker.check import claim_sentence

            lines.append(claim_sentence(run.cell.T, run.cell.L, int(counts), str(precision), str(precision)))
    return lines


def against(verdict: Verdict) -> list[str]:
    """What a careful reader would object, as far as the table tells."""
    lines = [verdict.reason] if verdict.reason else list(verdict.against)
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


def _number(run: RunRow, column: str) -> float | None:
    value: Any = run.measured.get(column)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
