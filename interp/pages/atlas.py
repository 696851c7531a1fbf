"""The atlas: maps of a sweep, what is known of each cell in words and numbers, and models that run in the page.

The page carries one model a cell, those of the coarse grid first, with weights in half precision. The run that is shown
counts as most runs of its cell do; among those it is the most accurate one. Some models come with the package:

    python -m scripts.bundle fig1 SWEEP
    python -m counting_interp.interp.pages.atlas SWEEP

add the runs of a sweep's folder to the bundled table of Fig. 1, and choose among its classified models anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from counting_interp.data import atlas_weights
from counting_interp.interp.figures.mechanism_map import PALEST, letters
from counting_interp.interp.figures.panels import ROWS
from counting_interp.interp.pages import asset, page
from counting_interp.interp.pages.live import live_script, model_payload
from counting_interp.interp.sweep.grid import COARSE, Setting, SweepCell
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
from counting_interp.interp.sweep.table import RunRow, read_runs
from counting_interp.interp.verdict.verdict import Verdict
from counting_interp.models import CountingTransformer
from counting_interp.util.errors import CheckpointError, InterpError
from counting_interp.util.files import write_atomically
from counting_interp.util.text import percent

GENERATOR = "interp atlas"
TITLE = "Atlas of counting"
LIMIT = 15_000_000  # bytes of the page
ADDRESS = 200  # bytes, at most, that it takes to say where a model is
WEIGHTS = atlas_weights()
WEIGHTS_LIMIT = 1_500_000  # bytes
BODY = """
<header><h1>Atlas of counting</h1><p class="note" id="about"></p></header>
<div class="controls"><label class="field" id="settings">Setting <select></select></label>
<div role="group" aria-label="What the maps show" id="views"></div></div>
<div id="legend" class="legend"></div>
<div class="atlas"><section id="maps" aria-label="Maps: p to the right, d upwards; arrow keys walk from cell to cell">
</section><section id="cell" aria-label="The chosen cell" aria-live="off"></section></div>
"""


@dataclass(frozen=True)
class Live:
    """A model in the page: the cell it stands for, which run it is (or what else), and its weights as JSON."""

    cell: SweepCell
    about: str
    run: int | None
    payload: str


def atlas_html(runs: Sequence[RunRow], models: Iterable[Live], source: str, limit: int = LIMIT) -> str:
    """The whole page, with as many of the models as there is room for; `source` says where the runs are from."""
    settings = settings_of(runs)
    room = limit - len(_page(settings, [], source).encode())
    if room < 0:
        raise InterpError(f"the page would be larger than {limit / 1e6:.0f} MB; make one of fewer sweeps")
    live: list[Live] = []
    for model in models:
        room -= len(model.payload) + ADDRESS
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
    scripts = [live_script(), *(asset(name) for name in ("maps.js", "atlas.js"))]
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


def checkpoints_of(sources: Sequence[Path]) -> dict[str, Path]:
    """The checkpoints that are still there, by the name of their run; tables have none."""
    folders = [source for source in sources if source.is_dir()]
    paths = {run.job.name: folder / run.checkpoint for folder in folders for run in read_runs(folder) if run.checkpoint}
    return {name: path for name, path in paths.items() if path.is_file()}


def choose(runs: Sequence[RunRow], there: Mapping[str, Path]) -> list[RunRow]:
    """One run for each cell that has a checkpoint, in the order in which they are taken."""
    main = {cell.cell: cell.main for cell in mechanisms(runs)}
    cells = group_by_cell(run for run in runs if run.job.name in there)
    chosen = [
        max(group, key=lambda run: (mechanism_of(run) == main.get(run.cell), run.final)) for group in cells.values()
    ]
    return sorted(chosen, key=lambda run: (not (run.cell.d in COARSE and run.cell.p in COARSE), run.parameters))


def load_live(chosen: Iterable[RunRow], there: Mapping[str, Path]) -> Iterator[Live]:
    """The models one by one, as they are asked for. A file that cannot be read, or has another model, is left out."""
    for run in chosen:
        try:
            model = CountingTransformer.load(there[run.job.name])
        except CheckpointError:
            continue
        if model.config == run.job.config():
            yield Live(run.cell, f"run {run.run} of this cell", run.run, packed(model))


def packed(model: CountingTransformer) -> str:
    payload: dict[str, Any] = model_payload(model, half=True)
    return json.dumps(payload, separators=(",", ":"))


def bundled(runs: Iterable[RunRow]) -> Iterator[Live]:
    """The bundled models among these runs."""
    for run, model in bundled_models(runs):
        yield Live(run.cell, f"run {run.run} of this cell", run.run, packed(model))


def bundled_models(runs: Iterable[RunRow]) -> Iterator[tuple[RunRow, CountingTransformer]]:
    """The same as models that can be asked."""
    weights: dict[str, dict[str, Tensor]] = {}
    for key, tensor in load_file(WEIGHTS).items():
        name, _, weight = key.partition("/")
        weights.setdefault(name, {})[weight] = tensor.float()
    for run in runs:
        if run.job.name in weights:
            yield run, CountingTransformer(run.job.config(), weights[run.job.name])


def make(folder: Path) -> int:
    """Write the weights; returns how many models they are of. Models that count come first, then those of the coarse
    grid, the small ones before the large."""
    runs = [run for run in read_runs(folder) if mechanism_of(run) is not None]
    there = checkpoints_of([folder])
    tensors = dict(_half(sorted(choose(runs, there), key=lambda run: mechanism_of(run) == "unsolved"), there))
    write_atomically(WEIGHTS, save(dict(sorted(tensors.items()))))
    return len({key.partition("/")[0] for key in tensors})


def _half(chosen: Sequence[RunRow], there: dict[str, Path]) -> Iterator[tuple[str, Tensor]]:
    room = WEIGHTS_LIMIT
    for run in chosen:
        weights = CountingTransformer.load(there[run.job.name]).state_dict()
        room -= sum(2 * tensor.numel() for tensor in weights.values())
        if room < 0:
            return
        for name, tensor in weights.items():
            yield f"{run.job.name}/{name}", tensor.to(torch.float16).contiguous()


if __name__ == "__main__":
    print(f"{make(Path(sys.argv[1]))} models")
