"""A repair: rounds of training on what is hardest, each followed by a proof attempt that finds what is still wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from msgspec import Meta, Struct

from counting_interp.interp.proof import Certificate, Counterexample, Undecided, prove
from counting_interp.interp.proof.document import proof_document
from counting_interp.interp.proof.repair.training import (
    BATCH,
    HardSequences,
    Trainer,
    margins,
    number_of_corners,
    with_equal_positions,
)
from counting_interp.models.checkpoint import TrainingState
from counting_interp.models.checkpoint.contents import Natural, Seed, check_numbers, check_shapes
from counting_interp.models.config import CountingConfig
from counting_interp.models.cost import too_large
from counting_interp.models.training import Recipe
from counting_interp.models.training.engine import too_large as run_too_large
from counting_interp.models.transformer import CountingTransformer
from counting_interp.util.errors import InterpError

STEPS, LONGEST = 1_000, 4  # steps of the first rounds, and how many times as many later ones have
PART = 250  # steps between two looks at what is hardest
HOT, HOTTEST = 2.0, 32.0  # the temperature is a corner's worst margin over HOT: a model that is far off moves faster
DECAY = 0.04  # of the matrices; for `lin` once all corners are right
SMALL = 0.01  # mean loss below which the matrices of models with softmax shrink in every second round
VERIFY = 10.0  # seconds for a proof attempt; twice as many after each one in a row that found nothing wrong
UNFINISHED = (Counterexample.verdict, Undecided.verdict)
MAX_ROWS = 500_000  # of an array in a state: no proof has more cells, and no run keeps more sequences
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Round:
    """The outcome of a round; number 0 is the proof attempt on the model that was given.

    Attributes:
        number, steps, seconds: rounds, steps and wall time so far.
        loss: mean training loss of its last steps.
        verdict, proved, cells, wrong, margin: of the proof attempt after it.
    """

    number: Natural
    steps: Natural
    seconds: Annotated[float, Meta(ge=0, le=1e15)]
    loss: float | None
    verdict: str
    proved: Natural
    cells: Annotated[int, Meta(ge=1, le=2**53)]
    wrong: Natural
    margin: float | None

    @property
    def merit(self) -> tuple[bool, float, float]:
        """The larger, the nearer to a proof. Shares: once its positions are equal, a `lin` model has fewer cells."""
        share = (self.proved - self.wrong) / self.cells
        return self.verdict == "certified", share, -math.inf if self.margin is None else self.margin


class Repair:
    """A model on its way to a proof.

    Args:
        parent: the model to begin with; it is not changed.
        seed: of the sequences. The same seed gives the same weights where no proof attempt runs out of time.
        progress: called with a stage's name and the share of it that is done.
        resume: the best model so far and what `state()` gave; the run resumes there.

    Attributes:
        rounds: the outcome of each.
        open_cells: of the best model: [position (-1 where it does not matter), token, count, wrong] each.
        certificate: of the best model, once there is one, in the dtype of its weights.
        document: its proof as `interp check` reads it; None where it is too long to be written down.
    """

    def __init__(
        self,
        parent: CountingTransformer,
        seed: int = 0,
        progress: Progress | None = None,
        resume: tuple[CountingTransformer, TrainingState] | None = None,
    ) -> None:
        self.parent, self.config, self.seed = parent, parent.config, seed
        check_repairable(self.config)
        self.progress = progress or (lambda stage, share: None)
        self.hard = HardSequences(self.config)
        self.rounds: list[Round] = []
        self.certificate: Certificate | None = None
        self.document: dict[str, Any] | None = None
        self._now = {name: value.detach().clone() for name, value in parent.state_dict().items()}
        if resume is None:
            self._verify(None, time.perf_counter(), VERIFY)
        else:
            self._restore(*resume)

    @property
    def certified(self) -> bool:
        return self.rounds[-1].verdict == Certificate.verdict

    @property
    def best(self) -> Round:
        """The round whose weights are nearest to a proof."""
        return max(self.rounds, key=lambda entry: entry.merit)

    def __repr__(self) -> str:
        best, rounds = self.best, len(self.rounds) - 1
        return f"<{best.verdict} after {rounds} rounds: {best.proved} of {best.cells} cells proved, {best.wrong} wrong>"

    def model(self) -> CountingTransformer:
        """The best model so far."""
        return CountingTransformer(self.config, self._best)

    def advance(self, patience: float = math.inf) -> Round:
        """One round; its proof attempt takes at most `patience` seconds."""
        began = time.perf_counter()
        loss = self._train(len(self.rounds))
        in_a_row = next((n for n, entry in enumerate(reversed(self.rounds)) if entry.wrong), 0)
        self._verify(loss, began, min(VERIFY * 2**in_a_row, max(patience, 1.0)))
        return self.rounds[-1]

    def _train(self, number: int) -> float:
        rng = torch.Generator().manual_seed((self.seed * 1_000_003 + number) % 2**63)
        self._now = with_equal_positions(self._now)
        worst = float(margins(self._current(), self.hard.corners).min())
        parts, loss = steps_of(number) // PART, math.nan
        decay = DECAY if worst > 0 or self.config.mixing != "lin" else 0.0
        below = SMALL if self.config.softmax and number % 2 == 0 else math.inf
        trainer = Trainer(self.config, self._now, BATCH, PART, parts, temperature(worst), decay, below)
        for part in range(parts):
            self.progress(f"round {number}: training", part / parts)
            hardest = self.hard.hardest(self._current(), rng)
            loss = trainer.train(self.hard.batches(hardest, PART, rng))
            self._now = trainer.weights()
        return loss

    def _verify(self, loss: float | None, began: float, seconds: float) -> None:
        last, number = (self.rounds[-1] if self.rounds else None), len(self.rounds)
        outcome = prove(
            self._current(),
            seconds,
            lambda stage, share: self.progress(f"round {number}: {stage}", share),
            as_stored=True,
        )
        self.hard.learn(outcome)
        this = Round(
            number=number,
            steps=(last.steps if last else 0) + steps_of(number),
            seconds=(last.seconds if last else 0.0) + time.perf_counter() - began,
            loss=loss,
            verdict=outcome.verdict,
            proved=outcome.proved_cells,
            cells=outcome.cells,
            wrong=sum(cell.wrong for cell in outcome.unproved),
            margin=outcome.margin,
        )
        self.rounds.append(this)
        if self.best is this:
            self._best, self.open_cells = self._now, _open_cells(outcome)
            self.certificate = outcome if isinstance(outcome, Certificate) else None
            self.document = _document(self._current(), outcome) if isinstance(outcome, Certificate) else None

    def _current(self) -> CountingTransformer:
        return CountingTransformer(self.config, self._now)

    # --- on disk -----------------------------------------------------------------------------------------------

    def state(self) -> TrainingState:
        """What is needed beside the parent and the best model to resume."""
        arrays = {f"now.{name}": value.contiguous().numpy() for name, value in self._now.items()}
        arrays |= {"found": self.hard.found.numpy(), "bred": self.hard.bred.numpy(), "open": self.open_cells}
        rounds = [asdict(entry) for entry in self.rounds]
        return TrainingState(arrays, {"repair": {"seed": self.seed, "rounds": rounds}})

    def _restore(self, best: CountingTransformer, state: TrainingState) -> None:
        """KeyError, ValueError or Refused where the state is not that of a repair of this model."""
        values, arrays = msgspec.convert(state.values["repair"], _Progress), state.arrays
        self.seed, self.rounds = values.seed, values.rounds
        self._best = {name: value.detach().clone() for name, value in best.state_dict().items()}
        self._now = {name: torch.from_numpy(arrays[f"now.{name}"].copy()) for name in self._now}
        if any(value.dtype != self._best[name].dtype for name, value in self._now.items()):
            raise ValueError("its weights are of another dtype than the model's")
        check_numbers(self._now)
        check_shapes(self._now, self.config)
        T, L = self.config.T, self.config.L
        self.hard.found = torch.from_numpy(_integers(arrays, "found", [0] * L, [T - 1] * L))
        self.hard.bred = torch.from_numpy(_integers(arrays, "bred", [0] * L, [T - 1] * L))
        self.open_cells = _integers(arrays, "open", [-1, 0, 1, 0], [L - 1, T - 1, L, 1])


class _Progress(Struct):
    """The values of a run that was interrupted. One that was certified has no state."""

    seed: Seed
    rounds: Annotated[list[Round], Meta(min_length=1)]

    def __post_init__(self) -> None:
        for number, entry in enumerate(self.rounds):
            if entry.number != number or entry.proved + entry.wrong > entry.cells or entry.verdict not in UNFINISHED:
                raise ValueError(f"its round {number} is not one of an interrupted run")


def _integers(arrays: dict[str, np.ndarray], name: str, lowest: list[int], highest: list[int]) -> np.ndarray:
    """An array of rows, each number of a row within its bounds."""
    rows = arrays[name]
    if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != len(lowest) or len(rows) > MAX_ROWS:
        raise ValueError(f"its array {name!r} has another kind or shape")
    if ((rows < lowest) | (rows > highest)).any():
        raise ValueError(f"its array {name!r} has numbers that no sequence has")
    return rows.copy()


def check_repairable(config: CountingConfig) -> None:
    """Refuse models that cannot be proved in one piece, or whose corners alone are too many."""
    if config.n_layers != 1 or not config.is_paper_block:
        raise InterpError(
            "only one-layer models of the paper's six variants can be proved at every size, so only these are "
            f"repaired; this is {config.name}{f' of {config.n_layers} layers' if config.n_layers > 1 else ''}"
        )
    corners = number_of_corners(config.T, config.L)
    recipe = Recipe(sequences=PART * BATCH, batch_size=BATCH)
    # lists of Python make six numbers of one, and the hardest corners are looked for four times a round
    reason = too_large(config, 4 * corners, numbers=6 * corners * config.L) or run_too_large(config, recipe)
    if reason is not None:
        raise InterpError(f"a round of repair {reason}" if reason.startswith("needs") else reason)


def steps_of(number: int) -> int:
    """Steps of a round."""
    return STEPS * min(LONGEST, (number + 1) // 2)


def temperature(worst: float) -> float:
    """At which a model with this worst margin is trained."""
    return min(max(-worst / HOT, 1.0), HOTTEST)


def _document(model: CountingTransformer, certificate: Certificate) -> dict[str, Any] | None:
    try:
        return proof_document(model, certificate)
    except InterpError:
        return None


def _open_cells(outcome: Certificate | Counterexample | Undecided) -> np.ndarray:
    rows = [
        (-1 if cell.position is None else cell.position, cell.token, cell.count, cell.wrong)
        for cell in outcome.unproved
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)
