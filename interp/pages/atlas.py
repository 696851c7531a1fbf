"""The atlas: maps of a sweep, the evidence on each cell, and models that run in the page.

The page carries one model per cell as far as they fit, those of the coarse grid first, with weights in half precision.
The model is the most accurate among the runs with the cell's main mechanism. Some models come with the package:

    python -m scripts.bundle fig1 SWEEP
    python -m counting_interp.interp.pages.atlas SWEEP

The first command adds the runs of a sweep's folder to the bundled table of Fig. 1. The second chooses the bundled
models again, among the classified runs of the folder.
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
LIMIT = 15_000_000  # bytes of the page, at most
ADDRESS = 200  # bytes, at most, of the reference to a model
WEIGHTS = atlas_weights()
WEIGHTS_LIMIT = 1_500_000  # bytes of the bundled models, at most
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
    """A model in the page: its cell, a phrase that identifies it, the number of its run, and its weights as JSON."""

    cell: SweepCell
    about: str
    run: int | None
    payload: str


def atlas_html(runs: Sequence[RunRow], models: Iterable[Live], source: str, limit: int = LIMIT) -> str:
    """The whole page, with as many of the models as fit into `limit` bytes.

    Args:
        source: a phrase for the origin of the runs.

    Raises:
        InterpError: the page is too large even without models.
    """
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
    """Adds to each cell the reference to its model in the page."""
    cells = (model.cell for model in live)
    numbers = {(cell.setting.slug, cell.model, cell.d, cell.p): i for i, cell in enumerate(cells)}
    for setting in settings:
        for cell in setting["cells"]:
            number = numbers.get((setting["name"], cell["model"], cell["d"], cell["p"]))
            if number is not None:
                cell["live"] = {"id": f"live-{number}", "about": live[number].about, "run": live[number].run}


ORDER = tuple(model for row in ROWS for model in row)


def settings_of(runs: Sequence[RunRow]) -> list[dict[str, Any]]:
    """One entry for each setting (T, L, layers, embeddings, sampler, epochs), the one with the most runs first."""
    groups = by_setting(by_cell(runs))
    classified = {cell.cell: cell for cell in mechanisms(runs)}
    of_cell = group_by_cell(runs)
    ordered = sorted(groups.items(), key=lambda pair: -sum(cell.runs for cell in pair[1]))
    return [_setting(setting, cells, classified, of_cell) for setting, cells in ordered]


def _setting(
    setting: Setting,
    cells: Sequence[CellStatistics],
    classified: dict[SweepCell, CellMechanisms],
    of_cell: dict[SweepCell, list[RunRow]],
) -> dict[str, Any]:
    models = sorted({cell.cell.model for cell in cells}, key=_model_order)
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
        "cells": [_cell(cell, classified.get(cell.cell), of_cell[cell.cell]) for cell in cells],
    }


def _model_order(model: str) -> tuple[int, str]:
    return (ORDER.index(model) if model in ORDER else len(ORDER), model)


def _cell(cell: CellStatistics, classified: CellMechanisms | None, runs: Sequence[RunRow]) -> dict[str, Any]:
    sizes = {"model": cell.cell.model, "d": cell.cell.d, "p": cell.cell.p}
    facts: dict[str, Any] = {"accuracy": round(cell.mean, 3), "parameters": cell.parameters}
    if classified is not None:
        counts = {name: number for name, number in classified.counts.items() if number}
        facts |= {"main": classified.main, "share": round(classified.share, 3), "letters": letters(classified)}
        facts |= {"counts": counts}
        facts |= {name: round(number, 4) for name, number in classified.shares.items() if number is not None}
    proved = [share for run in runs if (share := _number(run, "proof_share")) is not None]
    if proved:
        facts["proved"] = round(fmean(proved), 4)
    return {**sizes, **facts, "runs": [dict(_run(run)) for run in sorted(runs, key=lambda run: run.run)]}


def _run(run: RunRow) -> Iterator[tuple[str, Any]]:
    """What the page shows of a run; unknown fields are left out."""
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
    """The meaning of the mechanism, and what an unsolved run leans towards."""
    return verdict.mechanism.words + (f" It leans towards {verdict.leans}." if verdict.leans else "")


def evidence(run: RunRow, verdict: Verdict) -> list[str]:
    """Sentences about the rule behind an old verdict, and about what was proved of the run."""
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
    """The reason why there is no verdict or, without one, the objections to the verdict, as sentences."""
    lines = [verdict.reason] if verdict.reason else list(verdict.against)
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


def _number(run: RunRow, column: str) -> float | None:
    value: Any = run.measured.get(column)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def checkpoints_of(sources: Sequence[Path]) -> dict[str, Path]:
    """The existing checkpoints of sweep folders, by the name of their run; tables have none."""
    folders = [source for source in sources if source.is_dir()]
    paths = {run.job.name: folder / run.checkpoint for folder in folders for run in read_runs(folder) if run.checkpoint}
    return {name: path for name, path in paths.items() if path.is_file()}


def choose(runs: Sequence[RunRow], checkpoints: Mapping[str, Path]) -> list[RunRow]:
    """The run to show of each cell with a checkpoint: coarse grid first, then by number of parameters."""
    main = {cell.cell: cell.main for cell in mechanisms(runs)}
    cells = group_by_cell(run for run in runs if run.job.name in checkpoints)
    chosen = [
        max(group, key=lambda run: (mechanism_of(run) == main.get(run.cell), run.final)) for group in cells.values()
    ]
    return sorted(chosen, key=lambda run: (not (run.cell.d in COARSE and run.cell.p in COARSE), run.parameters))


def load_live(chosen: Iterable[RunRow], checkpoints: Mapping[str, Path]) -> Iterator[Live]:
    """Loads the models lazily. A file that cannot be read, or holds another model, is skipped."""
    for run in chosen:
        try:
            model = CountingTransformer.load(checkpoints[run.job.name])
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
    """The bundled models among these runs, each with its run."""
    weights: dict[str, dict[str, Tensor]] = {}
    for key, tensor in load_file(WEIGHTS).items():
        name, _, weight = key.partition("/")
        weights.setdefault(name, {})[weight] = tensor.float()
    for run in runs:
        if run.job.name in weights:
            yield run, CountingTransformer(run.job.config(), weights[run.job.name])


def make(folder: Path) -> int:
    """Writes the weights of the bundled models, as many as fit into WEIGHTS_LIMIT.

    Solved models come first; among them the coarse grid, and small models before large ones.

    Returns:
        The number of models.
    """
    runs = [run for run in read_runs(folder) if mechanism_of(run) is not None]
    checkpoints = checkpoints_of([folder])
    chosen = sorted(choose(runs, checkpoints), key=lambda run: mechanism_of(run) == "unsolved")
    tensors = dict(_half(chosen, checkpoints))
    write_atomically(WEIGHTS, save(dict(sorted(tensors.items()))))
    return len({key.partition("/")[0] for key in tensors})


def _half(chosen: Sequence[RunRow], checkpoints: dict[str, Path]) -> Iterator[tuple[str, Tensor]]:
    room = WEIGHTS_LIMIT
    for run in chosen:
        weights = CountingTransformer.load(checkpoints[run.job.name]).state_dict()
        room -= sum(2 * tensor.numel() for tensor in weights.values())
        if room < 0:
            return
        for name, tensor in weights.items():
            yield f"{run.job.name}/{name}", tensor.to(torch.float16).contiguous()


if __name__ == "__main__":
    print(f"{make(Path(sys.argv[1]))} models")
