"""The figures of a sweep: which there are, and all of them for a table of finished runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.mechanisms import CellMechanisms, mechanisms
from counting_interp.interp.sweep.settings import by_setting, pairs
from counting_interp.interp.sweep.table import RunRow, by_cell

FIGURES = {
    "mean": "mean accuracy over (p, d), six panels, cells with a run at 99 or 100 % marked",
    "best": "best accuracy of any run and epoch over (p, d)",
    "std": "standard deviation over runs, over (p, d)",
    "parameters": "accuracy against the number of parameters, with running best and convex hull",
    "difference": "learned minus random embeddings, one minus two layers, where a table has both",
}


MAPS = {
    "mechanism": "the mechanism of each cell over (p, d), with lines of equal accuracy",
    "share-RC": "the share of the count that is relation-based, over (p, d)",
    "share-IC": "the share of the count that is inventory-based, over (p, d)",
    "share-gated": "the share of the count that is gated, over (p, d)",
    "proved": "the share of each model that is proved right on every sequence, over (p, d)",
}


def draw_maps(runs: Sequence[RunRow], only: Sequence[str] = ()) -> Iterator[Drawing]:
    """What classification found, for each setting among the runs that were classified."""
    from counting_interp.interp.figures.mechanism_map import mechanism_map, number_map

    _check(only, MAPS)
    groups: dict[Setting, list[CellMechanisms]] = {}
    for cell in mechanisms(runs):
        groups.setdefault(cell.cell.setting, []).append(cell)
    for setting, cells in groups.items():
        for name in only or MAPS:
            drawing = mechanism_map(cells, setting) if name == "mechanism" else number_map(cells, setting, name)
            if drawing is not None:
                yield drawing


def draw_all(runs: Sequence[RunRow], only: Sequence[str] = ()) -> Iterator[Drawing]:
    """Every figure that finished runs allow, for each setting (T, L, layers, embeddings, ...) among them."""
    from counting_interp.interp.figures.parameters import accuracy_by_parameters
    from counting_interp.interp.figures.phase import difference_map, phase_diagram

    _check(only, FIGURES)
    wanted = only or tuple(FIGURES)
    settings = by_setting(by_cell(runs))
    for setting, cells in settings.items():
        for statistic in ("mean", "best", "std"):
            if statistic in wanted and (statistic != "std" or any(cell.std is not None for cell in cells)):
                yield phase_diagram(cells, setting, statistic)
        if "parameters" in wanted:
            yield accuracy_by_parameters([run for run in runs if run.cell.setting == setting], setting)
    if "difference" in wanted:
        for pair in pairs(list(settings)):
            drawing = difference_map(settings[pair.first], settings[pair.second], pair)
            if drawing is not None:
                yield drawing


def _check(only: Sequence[str], known: Mapping[str, str]) -> None:
    unknown = sorted(set(only) - set(known))
    if unknown:
        raise ValueError(f"figures of a sweep are {', '.join(known)}; got {unknown[0]!r}")
