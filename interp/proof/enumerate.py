"""Proof by running the model: on every sequence where these are few, else on the most dangerous ones.

This is for models without a linear form: in two layers the second one's attention compares outputs of the first. It is
also for one-layer models whose numbers leave the range of float64. `dot` and `bos` models do not see order, so one
sequence per multiset is enough. Where even those are too many, local search may still find a wrong sequence; a proof is
not attempted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, islice, product
from math import comb, log10

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.interp.proof.outcome import Outcome
from counting_interp.interp.proof.rounding import OUTSIDE, UNIT_ROUNDOFF, RunningError, weights_outside
from counting_interp.interp.proof.state import ProofState
from counting_interp.models import task
from counting_interp.models.cost import affordable, batch_size

MAX_SEQUENCES = 300_000
BATCH = 512
SAMPLES = 2_000
STARTS = 24
SEARCH_SHARE = 0.5


class Enumeration:
    """Searches for a proof by running the model; `outcome()` runs all stages."""

    def __init__(self, state: ProofState, progress: Callable[[str, float], None]) -> None:
        self.state, self.progress = state, progress
        self.config, self.counts, self.precisions = state.config, state.counts, state.precisions
        self.runs = [RunningError(state.model, UNIT_ROUNDOFF[name]) for name in self.precisions]
        self.own_run = RunningError(state.model, UNIT_ROUNDOFF["float64"])
        self.outside = weights_outside({name: w.numpy() for name, w in self.own_run.exact.state_dict().items()})
        self.rounding = [0.0] * len(self.runs)
        self.slack = np.full((len(self.runs), *state.margin.shape), np.inf)  # by how much gaps exceed rounding
        self.batch = min(BATCH, max(1, batch_size(self.config) // 4))  # in double precision, errors beside values

    @property
    def sequences(self) -> int:
        """How many have to be run for a proof."""
        T, L = self.config.T, self.config.L
        return T**L if self.config.mixing == "lin" else comb(T + L - 1, L)

    def outcome(self) -> Outcome:
        few = self.sequences <= MAX_SEQUENCES
        complete = self.enumerate() if few else self.search()
        kind = "sequences" if self.config.mixing == "lin" else "multisets"
        if self.outside is not None:
            reason = self.outside
        elif not few:
            reason = f"only running all {kind} would be a proof, and 10^{log10(self.sequences):.0f} are too many"
        elif not complete:
            reason = "the time was up; give more with --time"
        elif np.isinf(self.rounding[-1]):
            reason = f"{OUTSIDE}: terms of its sums can add up to more than 2^100"
        else:
            reason = f"margins are below the rounding errors of {self.precisions[-1]}"
        order = "" if self.config.mixing == "lin" else "order does not matter: "
        return self.state.conclude(reason=reason, identity=f"{order}all {kind} were run", rounding=self.rounding)

    # --- stages ------------------------------------------------------------------------------------------------

    def enumerate(self) -> bool:
        """Run every sequence (every multiset); True when all were run."""
        tokens_of = range(self.config.T)
        every: Iterator[tuple[int, ...]] = (
            product(tokens_of, repeat=self.config.L)
            if self.config.mixing == "lin"
            else combinations_with_replacement(tokens_of, self.config.L)
        )
        done = 0
        while rows := list(islice(every, self.batch)):
            self.progress("enumeration", done / self.sequences)
            done += len(rows)
            tokens = torch.tensor(rows)
            margins, counts = self._margins(tokens)
            self._check_rounding(tokens, margins, counts)
            if self.state.time_is_up:
                return False
        for level in reversed(range(len(self.runs))) if self.outside is None else ():
            for token, row in np.argwhere(self.slack[level] > 0):
                margin = float(self.state.margin[token, row])
                rounding = margin - float(self.slack[level, token, row])
                self.state.prove(int(token), int(row) + 1, margin, level, rounding, "enumeration")
        return True

    def search(self) -> bool:
        """Samples, then descent by single exchanges from the worst of them. Never a proof."""
        T, L = self.config.T, self.config.L
        samples = affordable(self.config, SAMPLES)
        pool = torch.cat([task.sample(name, samples, T=T, L=L, generator=0) for name in ("paper", "uniform")])
        pool = torch.cat([pool, torch.arange(T)[:, None].expand(-1, L)])
        until = self.state.started + SEARCH_SHARE * (self.state.deadline - self.state.started)
        worst = self._worst(pool, until)
        starts = pool[worst.argsort()[:STARTS]]
        for n, start in enumerate(starts):
            self.progress("search", n / len(starts))
            if time.perf_counter() > until:
                break
            self._descend(start, until)
        return False

    def _worst(self, pool: Int[Tensor, "batch pos"], until: float) -> Float[Tensor, "some"]:
        """The smallest margin of each sequence, of as many as there is time for."""
        worst = []
        for part in pool.split(self.batch):
            worst.append(self._margins(part)[0].min(1).values)
            if time.perf_counter() > until:
                break
        return torch.cat(worst)

    def _descend(self, tokens: Int[Tensor, "pos"], until: float) -> None:
        T, L = self.config.T, self.config.L
        position, token = torch.arange(L).repeat_interleave(T), torch.arange(T).repeat(L)
        best = float("inf")
        while time.perf_counter() < until:
            lowest, nearest = best, tokens
            for positions, values in zip(position.split(self.batch), token.split(self.batch), strict=True):
                neighbours = tokens.repeat(len(positions), 1)
                neighbours[torch.arange(len(positions)), positions] = values
                margins = self._margins(neighbours)[0].min(1).values
                if float(margins.min()) < lowest:
                    lowest, nearest = float(margins.min()), neighbours[int(margins.argmin())]
                if time.perf_counter() > until:
                    return
            if not lowest < best:
                return
            best, tokens = lowest, nearest

    # --- batches -----------------------------------------------------------------------------------------------

    def _margins(self, tokens: Int[Tensor, "batch pos"]) -> tuple[Float[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        """Margins in float64 at every position (inf where the count was not asked about), recorded in the state."""
        counts = task.histogram(tokens)
        with torch.no_grad():
            logits = self.runs[0].exact(tokens)
        margins = _gaps(logits, counts - self.config.first_count).amin(-1)
        margins = margins.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)  # NaN answers nothing
        margins = margins.masked_fill(counts > self.counts, torch.inf)
        flat, cells = margins.flatten().numpy(), (tokens * self.counts + counts - 1).flatten().numpy()
        cells = np.where(np.isinf(flat), 0, cells)
        lowest = np.full(self.state.margin.size, np.inf)
        np.minimum.at(lowest, cells, flat)
        for cell in np.flatnonzero(lowest < self.state.margin.ravel()):
            index = int(np.flatnonzero((cells == cell) & (flat == lowest[cell]))[0])
            sequence, position = divmod(index, self.config.L)
            token, row = divmod(int(cell), self.counts)
            self.state.add_example(token, row + 1, float(lowest[cell]), tokens[sequence].tolist(), position)
        return margins, counts

    def _check_rounding(
        self, tokens: Int[Tensor, "batch pos"], margins: Float[Tensor, "batch pos"], counts: Int[Tensor, "batch pos"]
    ) -> None:
        """Note by how much the gaps between logits exceed rounding, at least, in each cell."""
        right = counts - self.config.first_count
        own = 2 * self._pair_errors(self.own_run, tokens, right)[1]
        for level, run in enumerate(self.runs):
            logits, errors = self._pair_errors(run, tokens, right)
            errors = errors + own
            asked = ~margins.isinf()
            self.rounding[level] = max(self.rounding[level], float(errors[asked].max()) if bool(asked.any()) else 0.0)
            slack = (_gaps(logits, right) - errors).amin(-1).nan_to_num(nan=-torch.inf)
            where = asked.numpy()
            np.minimum.at(self.slack[level], (tokens.numpy()[where], counts.numpy()[where] - 1), slack.numpy()[where])

    @staticmethod
    def _pair_errors(run: RunningError, tokens: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        logits, errors = run(tokens)
        return logits, errors + errors.gather(-1, right.unsqueeze(-1))


def _gaps(
    logits: Float[Tensor, "batch pos class"], right: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch pos class"]:
    """Logit of the right class minus each class; infinite at the right class itself."""
    index = right.unsqueeze(-1)
    return (logits.gather(-1, index) - logits).scatter(-1, index, torch.inf)
