"""What a search for a proof has found so far, and the outcome that follows from it. Both provers write it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from counting_interp.interp.proof.checker.check import claim_sentence
from counting_interp.interp.proof.outcome import (
    Certificate,
    Counterexample,
    CountMargin,
    Outcome,
    ProvedCell,
    Undecided,
    UnprovedCell,
)
from counting_interp.models import task
from counting_interp.models.cost import in_batches
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.text import describe

PERMUTATIONS = 8  # orders of a sequence that are tried when its margin is within rounding
CANDIDATES = 64
EXAMPLES = 4  # sequences that are kept of each cell


class ProofState:
    """Arrays [view, count] over the cells of one model.

    Args:
        n_views: tokens, or pairs of position and token, position by position.
        counts: the largest count that is asked about.
        seconds: until the time is up.
        as_stored: only prove in the dtype of the weights.

    Attributes:
        precisions: in which a cell is proved, if it can be: that of the weights first.
        margin: the smallest margin found.
        examples: the sequences with the smallest margins, each with its margin and the position, lowest first.
        proved: a lower bound on the margin; -inf where nothing is proved.
        level: index of the precision for which it is proved; -1 where nothing is.
        rounding: what floating point may lose of the margin at that precision, and the proof itself with it.
        method: how it was proved.
    """

    def __init__(
        self, model: CountingTransformer, n_views: int, counts: int, seconds: float | int, as_stored: bool = False
    ) -> None:
        self.model, self.config, self.counts = model, model.config, counts
        self.started = time.perf_counter()
        self.deadline = self.started + seconds
        self.precisions = list(dict.fromkeys([self.config.dtype, self.config.dtype if as_stored else "float64"]))
        self.margin = np.full((n_views, counts), np.inf)
        self.proved = np.full((n_views, counts), -np.inf)
        self.level = np.full((n_views, counts), -1)
        self.rounding = np.full((n_views, counts), np.inf)
        self.method = np.full((n_views, counts), "", dtype=object)
        self.examples: dict[tuple[int, int], list[tuple[float, list[int], int]]] = {}

    @property
    def time_is_up(self) -> bool:
        return time.perf_counter() > self.deadline

    def add_example(self, view: int, count: int, margin: float, sequence: list[int], position: int) -> None:
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

    @property
    def known_wrong(self) -> bool:
        """Whether a sequence was found that the model, when run, gets wrong."""
        return self._wrong_sequence() is not None

    # --- the outcome -------------------------------------------------------------------------------------------

    def conclude(
        self,
        *,
        reason: str,
        identity: str,
        rounding: Sequence[float],
        quantity: str | None = None,
        ranges: np.ndarray | None = None,
    ) -> Outcome:
        """The outcome of the search.

        Args:
            reason: why it is undecided, if it is.
            identity: why finitely many values decide about all sequences.
            rounding: the largest bound on rounding errors at each of the precisions.
            quantity: what decides, where it is one quantity; ranges: its lowest and highest value, [end, count].
        """
        facts, kept = self._facts(), [kept[0] for kept in self.examples.values() if kept]
        closest = min(kept, key=lambda example: example[0], default=None)
        if (wrong := self._wrong_sequence()) is not None:
            return Counterexample(**facts, **wrong)
        if (self.level < 0).any() or closest is None:
            margin, sequence = (None, None) if closest is None else (closest[0], tuple(closest[1]))
            return Undecided(**facts, margin=margin, closest=sequence, reason=reason)
        level, config = int(self.level.max()), self.config
        precision = self.precisions[level]
        ends = np.full((2, self.counts), None) if ranges is None else ranges.tolist()
        return Certificate(
            **facts,
            claim=claim_sentence(config.T, config.L, self.counts, precision, config.dtype),
            identity=identity,
            quantity=quantity,
            margins=tuple(
                CountMargin(count, float(margin), float(proved), low, high)
                for count, margin, proved, low, high in zip(
                    range(1, self.counts + 1), self.margin.min(0), self.proved.min(0), *ends, strict=True
                )
            ),
            precision=precision,
            rounding=float(rounding[level]),
            closest=tuple(closest[1]),
        )

    def _facts(self) -> dict[str, Any]:
        """The fields that all outcomes share."""
        names, numbers = np.unique(self.method[self.level >= 0].astype(str), return_counts=True)
        return {
            "model": describe(self.config),
            "counts": self.counts,
            "cells": self.level.size,
            "proved_cells": int((self.level >= 0).sum()),
            "methods": {str(name): int(n) for name, n in zip(names, numbers, strict=True)},
            "seconds": time.perf_counter() - self.started,
            "unproved": tuple(
                UnprovedCell(
                    **self._cell(view, row),
                    sequences=tuple(tuple(sequence) for _, sequence, _ in self.examples.get((view, row), [])),
                )
                for view, row in np.argwhere(self.level < 0).tolist()
            ),
            "proofs": tuple(
                ProvedCell(
                    **self._cell(view, row),
                    proved=float(self.proved[view, row]),
                    rounding=float(self.rounding[view, row]),
                    precision=self.precisions[self.level[view, row]],
                    method=str(self.method[view, row]),
                )
                for view, row in np.argwhere(self.level >= 0).tolist()
            ),
        }

    def _cell(self, view: int, row: int) -> dict[str, Any]:
        T = self.config.T
        position = view // T if len(self.level) > T else None
        return {"token": view % T, "position": position, "count": row + 1, "margin": float(self.margin[view, row])}

    def _wrong_sequence(self) -> dict[str, Any] | None:
        """The most negative margin found on a sequence that the model, when run, really gets wrong."""
        cells = sorted((cell for cell in self.examples if self.margin[cell] <= 0), key=lambda cell: self.margin[cell])
        for cell in cells[:CANDIDATES]:
            _, sequence, position = self.examples[cell][0]
            if (run := self._wrong_run(sequence, position)) is not None:
                return {
                    **run,
                    "margin": float(self.margin[cell]),
                    "wrong_cells": len(cells),
                    "wrong_counts": tuple(sorted({row + 1 for _, row in cells})),
                }
        return None

    def _wrong_run(self, sequence: list[int], position: int) -> dict[str, Any] | None:
        """Run the model on the sequence and, where order changes rounding only, on some reorderings."""
        L = len(sequence)
        orders = [torch.arange(L)]
        if self.config.mixing != "lin":
            rng = torch.Generator().manual_seed(0)
            orders += [torch.randperm(L, generator=rng) for _ in range(PERMUTATIONS)]
        rows = torch.stack([torch.tensor(sequence)[order] for order in orders])
        truth, answers = task.histogram(rows), in_batches(self.config, rows, self.model.predict)
        for order, *run in zip(orders, rows, truth, answers, strict=True):
            where = int((order == position).nonzero())
            if run[1][where] != run[2][where]:
                names = ("sequence", "true_counts", "answers")
                return {name: tuple(values.tolist()) for name, values in zip(names, run, strict=True)} | {
                    "position": where
                }
        return None
