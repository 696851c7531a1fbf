"""The state of a verification: for every cell the smallest margin found, where, and what has been proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from counting_interp.interp.proof.outcome import Counterexample, ProvedCell, Undecided, UnprovedCell
from counting_interp.models import task
from counting_interp.models.cost import in_batches
from counting_interp.models.transformer import CountingTransformer

PERMUTATIONS = 8  # orders of a sequence that are tried when its margin is within rounding
CANDIDATES = 64
EXAMPLES = 4  # sequences that are kept of each cell


class ProofState:
    """Arrays [view, count] over the cells of one model.

    Attributes:
        margin: the smallest margin found.
        examples: the sequences with the smallest margins, each with its margin and the position, lowest first.
        proved: a lower bound on the margin; -inf where nothing is proved.
        level: index of the precision for which it is proved (0 is the model's own); -1 where nothing is.
        rounding: what floating point may lose of the margin at that precision, and the proof itself with it.
        method: how.
    """

    def __init__(self, model: CountingTransformer, n_views: int, counts: int) -> None:
        self.model, self.counts = model, counts
        self.margin = np.full((n_views, counts), np.inf)
        self.proved = np.full((n_views, counts), -np.inf)
        self.level = np.full((n_views, counts), -1)
        self.rounding = np.full((n_views, counts), np.inf)
        self.method = np.full((n_views, counts), "", dtype=object)
        self.examples: dict[tuple[int, int], list[tuple[float, list[int], int]]] = {}

    def found(self, view: int, count: int, margin: float, sequence: list[int], position: int) -> None:
        kept = self.examples.setdefault((view, count - 1), [])
        if not margin < (kept[-1][0] if len(kept) == EXAMPLES else np.inf):  # nor is NaN
            return
        if all(sequence != other for _, other, _ in kept):
            kept.append((margin, sequence, position))
            kept.sort(key=lambda example: example[0])
            del kept[EXAMPLES:]
            self.margin[view, count - 1] = kept[0][0]

    def prove(self, view: int, count: int, bound: float, level: int, rounding: float, method: str) -> None:
        self.proved[view, count - 1], self.level[view, count - 1] = bound, level
        self.rounding[view, count - 1], self.method[view, count - 1] = rounding, method

    @property
    def open(self) -> np.ndarray:
        """Cells that are neither proved nor known to be wrong."""
        return (self.level < 0) & (self.margin > 0)

    @property
    def refutable(self) -> bool:
        return bool((self.margin <= 0).any())

    def facts(self, seconds: float) -> dict[str, Any]:
        """The fields that all outcomes share."""
        config = self.model.config
        names, numbers = np.unique(self.method[self.level >= 0].astype(str), return_counts=True)
        layers = ", two layers" if config.n_layers == 2 else ""
        return {
            "model": f"{config.name}, T={config.T}, L={config.L}, d={config.d}, p={config.p}{layers}",
            "counts": self.counts,
            "cells": self.level.size,
            "proved_cells": int((self.level >= 0).sum()),
            "methods": {str(name): int(n) for name, n in zip(names, numbers, strict=True)},
            "seconds": seconds,
            "unproved": self._unproved(),
            "proofs": self._proofs(),
        }

    def smallest(self) -> tuple[float | None, tuple[int, ...] | None]:
        """The smallest margin found and its sequence."""
        if not any(self.examples.values()):
            return None, None
        margin, sequence, _ = min((kept[0] for kept in self.examples.values() if kept), key=lambda example: example[0])
        return margin, tuple(sequence)

    def counterexample(self, seconds: float) -> Counterexample | None:
        """The most negative margin found on a sequence that the model, when run, really gets wrong."""
        cells = sorted((cell for cell in self.examples if self.margin[cell] <= 0), key=lambda cell: self.margin[cell])
        for cell in cells[:CANDIDATES]:
            _, sequence, position = self.examples[cell][0]
            run = self._wrong_run(sequence, position)
            if run is not None:
                tokens, position, truth, answers = run
                return Counterexample(
                    **self.facts(seconds),
                    sequence=tokens,
                    true_counts=truth,
                    answers=answers,
                    position=position,
                    margin=float(self.margin[cell]),
                    wrong_cells=len(cells),
                    wrong_counts=tuple(sorted({count + 1 for _, count in cells})),
                )
        return None

    def undecided(self, seconds: float, reason: str) -> Undecided:
        margin, closest = self.smallest()
        return Undecided(**self.facts(seconds), margin=margin, closest=closest, reason=reason)

    def _place(self, view: int) -> dict[str, Any]:
        T, by_position = self.model.config.T, len(self.level) > self.model.config.T
        return {"token": view % T, "position": view // T if by_position else None}

    def _proofs(self) -> tuple[ProvedCell, ...]:
        return tuple(
            ProvedCell(
                **self._place(int(view)),
                count=int(row) + 1,
                margin=float(self.margin[view, row]),
                proved=float(self.proved[view, row]),
                rounding=float(self.rounding[view, row]),
                precision=self.model.config.dtype if self.level[view, row] == 0 else "float64",
                method=str(self.method[view, row]),
            )
            for view, row in np.argwhere(self.level >= 0)
        )

    def _unproved(self) -> tuple[UnprovedCell, ...]:
        return tuple(
            UnprovedCell(
                **self._place(int(view)),
                count=int(row) + 1,
                margin=float(self.margin[view, row]),
                sequences=tuple(tuple(sequence) for _, sequence, _ in self.examples.get((int(view), int(row)), [])),
            )
            for view, row in np.argwhere(self.level < 0)
        )

    def _wrong_run(
        self, sequence: list[int], position: int
    ) -> tuple[tuple[int, ...], int, tuple[int, ...], tuple[int, ...]] | None:
        """Run the model on the sequence and, where order changes rounding only, on some reorderings."""
        L = len(sequence)
        orders = [torch.arange(L)]
        if self.model.config.mixing != "lin":
            rng = torch.Generator().manual_seed(0)
            orders += [torch.randperm(L, generator=rng) for _ in range(PERMUTATIONS)]
        rows = torch.stack([torch.tensor(sequence)[order] for order in orders])
        truth, answers = task.histogram(rows), in_batches(self.model.config, rows, self.model.predict)
        for row, order in enumerate(orders):
            there = int((order == position).nonzero())
            if answers[row, there] != truth[row, there]:
                values = (rows[row].tolist(), truth[row].tolist(), answers[row].tolist())
                return tuple(values[0]), there, tuple(values[1]), tuple(values[2])
        return None
