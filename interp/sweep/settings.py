"""Which cells of a table belong on one picture: those that differ in model, d and p alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from interp.sweep.table import CellStatistics


@dataclass(frozen=True)
class Setting:
    """What all cells of a picture share."""

    T: int
    L: int
    n_layers: int
    frozen: bool
    sampler: str
    epochs: int

    @property
    def slug(self) -> str:
        """For file names: what is usual is left out."""
        parts = [f"T{self.T}", f"L{self.L}", "layers2" * (self.n_layers == 2), "random" * self.frozen]
        parts += [self.sampler * (self.sampler != "published"), f"epochs{self.epochs}" * (self.epochs != 500)]
        return "_".join(filter(None, parts))

    @property
    def label(self) -> str:
        """For captions."""
        parts = [f"T = {self.T}, L = {self.L}", f"{self.epochs} epochs", f"{self.sampler} sampler"]
        parts += ["two layers"] * (self.n_layers == 2) + ["random embeddings"] * self.frozen
        return ", ".join(parts)


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
        cell = statistics.cell
        setting = Setting(cell.T, cell.L, cell.n_layers, cell.frozen, cell.sampler, cell.epochs)
        groups[setting].append(statistics)
    return dict(groups)


def pairs(settings: Sequence[Setting]) -> list[Pair]:
    """The comparisons of the paper's appendix that can be made of these settings."""
    found = []
    for first in settings:
        for second in settings:
            rest = [(s.T, s.L, s.sampler, s.epochs) for s in (first, second)]
            if rest[0] != rest[1]:
                continue
            kinds = [(s.n_layers, s.frozen) for s in (first, second)]
            if kinds[0] == (kinds[1][0], False) and kinds[1][1]:
                found.append(Pair("learned_minus_random", "learned minus random embeddings", 60, first, second))
            if not first.frozen and not second.frozen and (first.n_layers, second.n_layers) == (1, 2):
                found.append(Pair("one_minus_two_layers", "one minus two layers", 25, first, second))
    return found
