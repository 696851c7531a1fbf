"""Which cells of a table belong on one picture, and which pictures can be subtracted from each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.table import CellStatistics


@dataclass(frozen=True)
class Pair:
    """Two settings that differ in one thing, first minus second.

    Attributes:
        name: for file names.
        title: for people.
        range: of the colour scale, in points; the published differences stay within it.
    """

    name: str
    title: str
    range: float
    first: Setting
    second: Setting


def by_setting(cells: Sequence[CellStatistics]) -> dict[Setting, list[CellStatistics]]:
    groups: defaultdict[Setting, list[CellStatistics]] = defaultdict(list)
    for statistics in cells:
        groups[statistics.cell.setting].append(statistics)
    return dict(groups)


def pairs(settings: Sequence[Setting]) -> list[Pair]:
    """The comparisons of the paper's appendix that can be made of these settings."""
    found = []
    for first in settings:
        random, deeper = first.changed(frozen=True), first.changed(n_layers=2)
        if not first["frozen"] and random in settings:
            found.append(Pair("learned_minus_random", "learned minus random embeddings", 60, first, random))
        if first["n_layers"] == 1 and not first["frozen"] and deeper in settings:
            found.append(Pair("one_minus_two_layers", "one minus two layers", 25, first, deeper))
    return found
