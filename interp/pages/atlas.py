"""The atlas: maps of a sweep, what is known of each cell in words and numbers, and models that run in the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from plotly.colors import PLOTLY_SCALES

from counting_interp.interp.figures.mechanism_map import PALEST, letters
from counting_interp.interp.figures.panels import ROWS
from counting_interp.interp.figures.style import SEQUENTIAL
from counting_interp.interp.pages import asset, page
from counting_interp.interp.pages.atlas_models import Live
from counting_interp.interp.sweep.grid import Setting, SweepCell
from counting_interp.interp.sweep.mechanisms import CellMechanisms, mechanism_of, mechanisms
from counting_interp.interp.sweep.settings import by_setting
from counting_interp.interp.sweep.table import CellStatistics, RunRow, by_cell, group_by_cell
from counting_interp.interp.verdict.evidence import objections, whom
from counting_interp.interp.verdict.rule import CASES, SOLVED, Numbers
from counting_interp.interp.verdict.verdict import MEANINGS
from counting_interp.util.errors import InterpError

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
<div id="tip" class="tip" hidden></div>
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
        "scale": [[stop, colour] for stop, colour in PLOTLY_SCALES[SEQUENTIAL]],
        "settings": settings,
        "live": len(live),
    }
    data = {"atlas": atlas, **{f"live-{number}": model.payload for number, model in enumerate(live)}}
    scripts = [asset(name) for name in ("model.js", "live.js", "maps.js", "cell.js", "atlas.js")]
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
NUMBERS = ("kept", "with_t", "with_s", "transfer")


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
        numbers = {"kept": found.kept, "follows": found.follows, "proved": found.proved}
        known |= {name: round(number, 4) for name, number in numbers.items() if number is not None}
    return {**place, **known, "runs": [dict(_run(run)) for run in sorted(runs, key=lambda run: run.run)]}


def _run(run: RunRow) -> Iterator[tuple[str, Any]]:
    """What the page shows of a run; what is not known is left out."""
    yield from (("run", run.run), ("seed", run.seed), ("final", round(run.final, 3)), ("best", round(run.best, 3)))
    measured = run.measured
    mechanism = mechanism_of(run)
    if mechanism is not None:
        yield from (("mechanism", mechanism), ("label", measured["verdict_label"]))
        yield from (("says", run_words(run)), ("evidence", evidence(run)), ("against", against(run)))
        for name in NUMBERS:
            found = [measured.get(f"verdict_{name}{end}") for end in ("", "_low", "_high")]
            numbers = [round(float(number), 3) for number in found if isinstance(number, (int, float))]
            if len(numbers) == len(found):
                yield name, numbers
        if isinstance(confidence := measured.get("verdict_confidence"), (int, float)):
            yield "confidence", round(float(confidence), 3)
    if isinstance(share := measured.get("proof_share"), (int, float)):
        yield from (("proved", round(float(share), 4)), ("proof", str(measured.get("proof_proof", ""))))


def run_words(run: RunRow) -> str:
    """`relation-based: attention compares, ...`, or what an unsolved run leans to."""
    label, case = str(run.measured["verdict_label"]), run.measured.get("verdict_case")
    leans = run.measured.get("verdict_leans")
    if case in CASES:
        return f"{MEANINGS[label]}: {CASES[case]}"
    return MEANINGS[label] + (f"; leans towards {leans}" if leans else "")


def evidence(run: RunRow) -> list[str]:
    """One sentence for each test whose number the table has."""
    kept, with_t, with_s, transfer = (_number(run, f"verdict_{n}") for n in ("kept", "with_t", "with_s", "transfer"))
    directions, share = _number(run, "verdict_directions"), _number(run, "proof_share")
    lines = []
    if kept is not None:
        lines.append(f"Without attention's comparison, {max(0.0, kept):.0%} of the count is left.")
    if with_t is not None and with_s is not None:
        lines.append(f"Told another token s on its self path, a place of t {whom(with_t, with_s)}.")
    if transfer is not None:
        lines.append(f"Another token's count displacement has {transfer:.0%} of the effect of the token's own.")
    if directions is not None:
        many = directions != 1
        lines.append(f"{directions:.0f} direction{'s carry' if many else ' carries'} 95 % of the accuracy.")
    if share is not None:
        wrong, cells = _number(run, "proof_wrong"), _number(run, "proof_cells")
        counted = "" if wrong is None or cells is None else f"; in {wrong:.0f} of {cells:.0f} a wrong answer was found"
        kind = "token and count, for lin also the place"
        lines.append(f"Of its cells ({kind}) {share:.1%} are proved right on every sequence{counted}.")
    return lines


def against(run: RunRow) -> list[str]:
    """What a careful reader would object, as far as the table tells."""
    label, case = str(run.measured["verdict_label"]), run.measured.get("verdict_case")
    names = ("accuracy", "kept", "with_t", "with_s", "transfer")
    found = {name: _number(run, f"verdict_{name}") for name in names}
    known = {name: value for name, value in found.items() if value is not None}
    if len(known) < len(names):
        return []
    if label == "unsolved":
        short = known["accuracy"] < SOLVED
        return [f"{SOLVED:.0%} of positions are needed to call it solved."] if short else []
    lines = objections(label, case, Numbers(slope=1.0, **known))
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


def _number(run: RunRow, column: str) -> float | None:
    value: Any = run.measured.get(column)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
