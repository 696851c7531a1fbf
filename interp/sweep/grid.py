"""Which runs a sweep has: cells of the (model, T, L, d, p, ...) space, several runs each, each with its own seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from models.config import CountingConfig

GRID = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)  # as trained by the authors; their paper prints 12 for 11


@dataclass(frozen=True)
class Cell:
    """One point of a sweep: everything that fixes a run but its seed.

    Models have L + 1 classes as in the published code, so that parameter counts agree with the published ones.
    """

    model: str
    T: int
    L: int
    d: int
    p: int
    n_layers: int = 1
    frozen: bool = False
    sampler: str = "published"
    epochs: int = 500

    def __post_init__(self) -> None:
        self.config(seed=0)

    def config(self, seed: int) -> CountingConfig:
        return CountingConfig.parse(
            self.model,
            T=self.T,
            L=self.L,
            d=self.d,
            p=self.p,
            n_layers=self.n_layers,
            n_classes=self.L + 1,
            frozen_embeddings=self.frozen,
            seed=seed,
        )

    @property
    def label(self) -> str:
        """For people: `bos+sftm d=45 p=2`, and what is unusual about it."""
        unusual = [f"T={self.T}" * (self.T != 32), f"L={self.L}" * (self.L != 10)]
        unusual += ["2 layers" * (self.n_layers == 2), "random embeddings" * self.frozen]
        return " ".join([self.model, f"d={self.d}", f"p={self.p}", *filter(None, unusual)])


@dataclass(frozen=True)
class Job:
    """One training run: a cell and the index of the run in it."""

    cell: Cell
    run: int

    @property
    def name(self) -> str:
        """Unique, and a file name."""
        cell = self.cell
        embeddings = "random" if cell.frozen else "learned"
        return (
            f"{cell.model}_T{cell.T}_L{cell.L}_d{cell.d}_p{cell.p}_layers{cell.n_layers}_{embeddings}_"
            f"{cell.sampler}_epochs{cell.epochs}_run{self.run}"
        )

    @property
    def seed(self) -> int:
        """From the cell and the run alone: the same whatever else is in the sweep and wherever it runs. The number of
        epochs does not enter, so a shorter run is the beginning of the longer one."""
        c = self.cell
        facts = [c.model, c.T, c.L, c.d, c.p, c.n_layers, c.frozen, c.sampler, self.run]
        return int.from_bytes(hashlib.sha256(json.dumps(facts).encode()).digest()[:6], "big")

    def config(self) -> CountingConfig:
        return self.cell.config(self.seed)


def ordered(jobs: Iterable[Job]) -> list[Job]:
    """First runs of all cells before second runs, each round shuffled (by hash): a sweep that is stopped half-way has
    covered its grid evenly, and dear and cheap cells are mixed, so that the time left is foreseen well."""
    return sorted(jobs, key=lambda job: (job.run, hashlib.sha256(job.name.encode()).digest()))
