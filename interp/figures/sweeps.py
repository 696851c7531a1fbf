"""The figures of a sweep: which there are, and all of them for a table of finished runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interp.figures.drawing import Drawing
from interp.sweep.settings import by_setting, pairs
from interp.sweep.table import RunRow, by_cell

FIGURES = {
    "mean": "mean accuracy over (p, d), six panels, cells with a run at 99 or 100 % marked",
    "best": "best accuracy of any run and epoch over (p, d)",
    "std": "standard deviation over runs, over (p, d)",
    "parameters": "accuracy against the number of parameters, with running best and convex hull",
    "difference": "learned minus random embeddings, one minus two layers, where a table has both",
}


def draw_all(runs: Sequence[RunRow], only: Sequence[str] = ()) -> Iterator[Drawing]:
    """Every figure that finished runs allow, for each setting (T, L, layers, embeddings, ...) among them."""
    from interp.figures.parameters import accuracy_by_parameters
    from interp.figures.phase import difference_map, phase_diagram

    unknown = sorted(set(only) - set(FIGURES))
    if unknown:
        raise ValueError(f"figures of a sweep are {', '.join(FIGURES)}; got {unknown[0]!r}")
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
            yield difference_map(settings[pair.first], settings[pair.second], pair)
