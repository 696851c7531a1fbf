"""Searches for a proof: corners, then wrong sequences, then branch and bound. Two layers are run on every sequence."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from counting_interp.interp.proof.branch import PROVED, VIOLATED
from counting_interp.interp.proof.cells import CountCell, compile_kernels, enumerable, enumerate_cell, extremes, views
from counting_interp.interp.proof.enumerate import Enumeration
from counting_interp.interp.proof.outcome import Counterexample, Outcome, Undecided, claimed_counts
from counting_interp.interp.proof.reduction import Reduction, View
from counting_interp.interp.proof.rounding import OUTSIDE, OWN_FACTOR, Rounding
from counting_interp.interp.proof.state import EXAMPLES, ProofState
from counting_interp.models.transformer import CountingTransformer
from counting_interp.probes.applicability import needs_paper_block, refuse
from counting_interp.util.errors import InterpError

MAX_CELLS = 500_000  # beyond, even one look at each takes too long


def prove(
    model: CountingTransformer,
    seconds: float | int = 60,
    progress: Callable[[str, float], None] | None = None,
    max_count: int | None = None,
    as_stored: bool = False,
) -> Outcome:
    """Decide whether `model` gives the true count, by a strict argmax over all its classes, on every sequence.

    Args:
        model: one or two layers, any of the paper's variants, trained or constructed.
        seconds: time after which an undecided search gives up.
        progress: called with the stage's name and the share of it that is done.
        max_count: ask only about positions whose true count is at most this; see `claimed_counts` for the default.
        as_stored: prove it in the dtype of the weights or not at all. By default, cells whose margins are too small for
            that are proved in float64 instead, and `Certificate.precision` says so.

    Raises:
        NotApplicable: for other blocks than the paper's.
        InterpError: where there are too many cells.
        ValueError: if `seconds` is not positive or `max_count` not between 1 and L.
    """
    refuse(needs_paper_block(model.config))
    T, L, counts = model.config.T, model.config.L, claimed_counts(model, max_count)
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds}")
    if (cells := counts * T * (L if model.config.mixing == "lin" else 1)) > MAX_CELLS:
        raise InterpError(
            f"a model of T={T} and L={L} has {cells:,} pairs of position and count to decide, more than "
            f"the {MAX_CELLS:,} that can be looked at one by one; max_count (--max-count) asks about fewer"
        )
    report = progress or (lambda stage, share: None)
    with np.errstate(all="ignore"):  # what overflows is never called proved
        if model.config.n_layers == 2:
            return Enumeration(ProofState(model, T, counts, seconds, as_stored), report).outcome()
        report("compiling (once, about 30 s)", 0.0)
        compile_kernels()
        reduction = Reduction(model)
        state = ProofState(model, T * len(reduction.positions), counts, seconds, as_stored)
        outcome = OneLayerProver(reduction, state, report).outcome()
        if isinstance(outcome, Undecided) and outcome.reason.startswith((OUT_OF_RANGE, OUTSIDE)):
            by_running = Enumeration(ProofState(model, T, counts, seconds), report).outcome()
            return by_running if isinstance(by_running, Counterexample) else outcome
        return outcome


CORNERS, ENUMERATION, BRANCHING = "corners", "enumeration", "branch and bound"
ROUNDS = (300, 3_000, 30_000, 300_000, 3_000_000, 30_000_000)  # nodes per cell and challenger
ROUNDS_ONCE_WRONG = (300, 3_000)
ROUNDS_AT_EACH_POSITION = (100,)  # once wrong, where there are L times the cells
SEARCH_SHARE = 0.3  # of the time, before branching
SEARCHED_ONCE_WRONG = 640  # cells, the most promising ones, when a wrong sequence is known
OUT_OF_RANGE = "its numbers leave the range in which float64 can bound them"
ONE_UNIT = "pre-activation of the only hidden unit that is ever active for the token"


class OneLayerProver:
    """Searches for a proof of a one-layer model; `outcome()` runs all stages."""

    def __init__(self, reduction: Reduction, state: ProofState, progress: Callable[[str, float], None]) -> None:
        self.reduction, self.state, self.progress = reduction, state, progress
        self.config, self.counts, self.precisions = state.config, state.counts, state.precisions
        self.rng = np.random.default_rng(0)
        self.roundings = {name: Rounding(reduction, name) for name in {*self.precisions, "float64"}}
        self.thresholds = np.full((len(self.precisions), *state.margin.shape), np.nan)  # inf: out of range
        self.enumerated = enumerable(self.config, self.counts)
        self.single = True  # whether every view has at most one hidden unit that is ever active, and
        self.low, self.high = np.full(self.counts, np.inf), np.full(self.counts, -np.inf)  # the range of that unit

    # --- the stages --------------------------------------------------------------------------------------------

    def outcome(self) -> Outcome:
        self.corner_stage()
        if self.state.open.any() or self.state.refutable:
            self.search_stage()
        if not self.state.known_wrong:
            self.branch_stage(ROUNDS)
        if self.state.known_wrong:  # say what is right all the same, where that is cheap
            self.branch_stage(ROUNDS_ONCE_WRONG if len(self.reduction.positions) == 1 else ROUNDS_AT_EACH_POSITION)
        return self.state.conclude(
            reason=self._reason(),
            identity=identity(self.config.mixing, self.config.softmax),
            rounding=self.thresholds.max((1, 2)).tolist(),
            quantity=ONE_UNIT if self.single else None,
            ranges=np.stack([self.low, self.high]) if self.single else None,
        )

    def corner_stage(self) -> None:
        """Evaluate all corners and bound every cell from them; enumerate where all multisets are few."""
        for index, view in enumerate(views(self.reduction)):
            self.progress("corners", index / len(self.state.margin))
            self._prepare(index, view)
            for count in range(1, self.counts + 1):
                if self.state.time_is_up:
                    return
                cell = CountCell(self.reduction, view, count)
                if self.enumerated:
                    self._enumerate(index, cell)
                else:
                    self._record(index, cell, cell.corners())
                    self._attempt(index, cell, 1, CORNERS)

    def search_stage(self) -> None:
        """Coordinate descent in every cell that is not proved, the most promising first."""
        now = time.perf_counter()
        until = now + SEARCH_SHARE * (self.state.deadline - now)
        undecided = self.state.level < 0
        left = np.argwhere(undecided)[np.argsort(self.state.margin[undecided], kind="stable")]
        for done, (index, row) in enumerate(left):
            self.progress("search", done / len(left))
            cell = CountCell(self.reduction, self._view(int(index)), int(row) + 1)
            if not len(cell.weights):
                continue
            corners = cell.corners()
            best = corners[np.argsort(cell.margins(corners), kind="stable")[:3]]
            self._record(int(index), cell, cell.search(np.concatenate([best, cell.random(4, self.rng)])))
            if time.perf_counter() > until or (self.state.refutable and done >= SEARCHED_ONCE_WRONG):
                break

    def branch_stage(self, rounds: tuple[int, ...]) -> None:
        """Branch and bound with growing budgets until every cell is decided, a sequence is wrong, or time is up."""
        known_wrong = self.state.known_wrong
        for budget in () if self.enumerated else rounds:  # nothing is left to find out of what was enumerated
            left = np.argwhere(self.state.open)
            for done, (index, row) in enumerate(left):
                self.progress(f"branch and bound, {budget} nodes", done / len(left))
                if self.state.time_is_up:
                    return
                self._attempt(
                    int(index), CountCell(self.reduction, self._view(int(index)), int(row) + 1), budget, BRANCHING
                )
                if not known_wrong and self.state.margin[index, row] <= 0 and self.state.known_wrong:
                    return

    # --- one cell ----------------------------------------------------------------------------------------------

    def _view(self, index: int) -> View:
        number, token = divmod(index, self.config.T)
        return self.reduction.view(token, self.reduction.positions[number])

    def _prepare(self, index: int, view: View) -> None:
        """Rounding thresholds of a view, and the range of the unit that decides, if it is one."""
        low, high = extremes(view, self.config.L)
        prover_error = OWN_FACTOR * self.roundings["float64"].margins(view, high)
        for level, name in enumerate(self.precisions):
            bound = self.roundings[name].margins(view, high) + prover_error
            self.thresholds[level, index] = bound[: self.counts].max(1)
        units = np.flatnonzero((high[: self.counts] > 0).any(0))
        self.single = self.single and len(units) <= 1
        for unit in units:
            self.low = np.minimum(self.low, low[: self.counts, unit])
            self.high = np.maximum(self.high, high[: self.counts, unit])

    def _record(self, index: int, cell: CountCell, others: np.ndarray) -> None:
        margins = cell.margins(others)
        for row in margins.argsort(kind="stable")[:EXAMPLES]:
            self.state.add_example(index, cell.count, float(margins[row]), *cell.sequence(others[row]))

    def _enumerate(self, index: int, cell: CountCell) -> None:
        margin, others = enumerate_cell(cell)
        self.state.add_example(index, cell.count, margin, *cell.sequence(others))
        for level, threshold in enumerate(self.thresholds[:, index, cell.count - 1].tolist()):
            if margin > threshold:
                self.state.prove(index, cell.count, margin, level, threshold, ENUMERATION)
                return

    def _attempt(self, index: int, cell: CountCell, budget: int, method: str) -> None:
        """Prove the cell at the best precision at which its margins allow it, within `budget` nodes each."""
        for level, threshold in enumerate(self.thresholds[:, index, cell.count - 1].tolist()):
            bound, verdict = np.inf, PROVED
            if not np.isfinite(threshold):
                continue
            for challenger in cell.challengers():
                verdict, _, proved, others = cell.prove(challenger, threshold, budget)
                if verdict == VIOLATED:
                    self._record(index, cell, others[None])
                if verdict != PROVED:
                    break
                bound = min(bound, proved)
            if verdict == PROVED:
                self.state.prove(index, cell.count, bound, level, threshold, method)
            if verdict != VIOLATED or self.state.margin[index, cell.count - 1] <= 0:
                return

    def _reason(self) -> str:
        if self.state.refutable:
            margin = f"{self.state.margin.min():.3g}"
            return f"in exact arithmetic the margin {margin} is not positive, but the model as run answers correctly"
        if (outside := self.roundings["float64"].outside) is not None:
            return outside
        if np.isinf(self.thresholds[-1]).any():
            return OUT_OF_RANGE
        if not self.state.time_is_up and (self.enumerated or not self.state.open.any()):
            return f"margins are below the rounding errors of {self.precisions[-1]}"
        return "the time was up; give more with --time"


def identity(mixing: str, softmax: bool) -> str:
    """Why the verdict covers all sequences."""
    if mixing == "lin":
        return "pre-activations are sums of independent contributions of the other positions"
    if softmax:
        return "D(n) * logits is piecewise linear in the histogram n, D(n) = sum_s n_s exp(S_ts) > 0"
    return "logits are piecewise linear in the histogram n"
