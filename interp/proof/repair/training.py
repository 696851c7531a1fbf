"""The sequences that are hardest for a model, and training on them at kernel speed.

**Hardest.** Most wrong cells are wrong at a corner, a sequence of two tokens. Up to order there are only
T (T - 1) (L - 1) / 2 + T of these. The rest are wrong on mixtures. `prove` finds them cell by cell. Between
two proofs, the sequences with the smallest margins are bred: each gets another token at one position, and the hardest
of old and new are kept.

**Temperature.** The loss is the cross-entropy of logits / tau: it asks for margins of some tau, and one step of Adam
moves a logit tau times as far. The engine need not know: it is given W_out / tau and b_out / tau.

**Decay.** Once every known sequence is right, cross-entropy can still be lowered by making all logits larger, which
proves nothing: the logits of other sequences grow as well. So the matrices shrink a little after each part. Where the
loss is almost zero, what grows is then the margin relative to the weights, and with it what known sequences say about
others. Softmax bounds what attention can do, and matrices that always shrink come to rest at a loss that holds against
it, with some cells wrong for ever. There every second round shrinks them only while the loss is small.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.interp.proof import Certificate, Counterexample, Undecided
from counting_interp.models import task
from counting_interp.models.config import CountingConfig
from counting_interp.models.cost import batch_size
from counting_interp.models.training import Recipe
from counting_interp.models.training.engine import engine_for
from counting_interp.models.transformer import CountingTransformer

READ_OUT = ("blocks.0.mlp.W_out", "blocks.0.mlp.b_out")
LR = 1e-3  # at the beginning of a round; it falls to zero along a cosine


class Trainer:
    """Weights in training for a number of parts with equally many batches, from fresh moments of Adam.

    Args:
        decay: share of the matrices that is taken away after each part, in proportion to the learning rate.
        decay_below: only after a part whose mean loss is below this.
    """

    def __init__(
        self,
        config: CountingConfig,
        weights: dict[str, Tensor],
        batch_size: int,
        batches: int,
        parts: int,
        temperature: float = 1.0,
        decay: float = 0.0,
        decay_below: float = math.inf,
    ) -> None:
        self.config, self.temperature, self.decay, self.decay_below = config, temperature, decay, decay_below
        self.recipe = Recipe(
            epochs=parts, sequences=batches * batch_size, batch_size=batch_size, lr=LR, schedule="cosine"
        )
        self._engine = engine_for(config, self.recipe, _read_out_times(weights, 1 / temperature))
        self._done = 0

    def train(self, sequences: Int[Tensor, "n pos"]) -> float:
        """One part, batch by batch; returns the mean loss."""
        loss = self._engine.train(self._engine.given(sequences), self._done)
        rate = float(self.recipe.rates(self._done, 1)[0]) / LR if loss < self.decay_below else 0.0
        self._done += self.recipe.steps_per_epoch
        weights = {
            name: value * (1 - self.decay * rate) if value.ndim == 2 else value
            for name, value in self._engine.state_dict().items()
        }
        self._continue_with(with_equal_positions(weights))
        return loss

    def _continue_with(self, weights: dict[str, Tensor]) -> None:
        moments = self._engine.moments
        self._engine = engine_for(self.config, self.recipe, weights)
        for moment, before in zip(self._engine.moments, moments, strict=True):
            moment[:] = before

    def weights(self) -> dict[str, Tensor]:
        """A state dict of the weights as they are now."""
        return _read_out_times(self._engine.state_dict(), self.temperature)


def _read_out_times(weights: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    return {name: value * factor if name in READ_OUT else value for name, value in weights.items()}


def with_equal_positions(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """A constant mixer replaced by the nearest one with one value on the diagonal and one beside it.

    Trained ones are close to that, and it makes the proof easy: what the other positions hold is then a multiset. The
    weights of `dot` and `bos` models stay as they are.
    """

    def nearest(A: Tensor) -> Tensor:
        own = torch.eye(len(A), dtype=torch.bool)
        return torch.where(own, A[own].mean(), A[~own].mean())

    return {name: nearest(value) if name.endswith("attn.A") else value for name, value in weights.items()}


HARDEST = 2_000  # sequences that a round trains on with preference
FOUND = 20_000  # counterexamples that are kept, the newest
CHILDREN = 2  # of each of the hardest
SHARES = {"fresh": 128, "corners": 64, "hardest": 128, "found": 32}  # of a batch
BATCH = sum(SHARES.values())
PART = 2_048  # sequences that are run at once


class HardSequences:
    """What is known to be hard, for one model as it changes.

    Attributes:
        corners: all sequences of one or two tokens, up to order.
        found: sequences of cells that `prove` could not prove.
        bred: the hardest descendants of either.
    """

    def __init__(self, config: CountingConfig) -> None:
        self.config = config
        self.corners = two_token_sequences(config.T, config.L)
        self.found = self.bred = self.corners[:0]

    def learn(self, outcome: Certificate | Counterexample | Undecided) -> int:
        """Take over the sequences of every cell that was not proved; returns how many are new."""
        known = set(map(tuple, self.found.tolist()))
        new = {sequence for cell in outcome.unproved for sequence in cell.sequences} - known
        if new:
            self.found = torch.cat([self.found, torch.tensor(sorted(new))])[-FOUND:]
        return len(new)

    def hardest(self, model: CountingTransformer, rng: torch.Generator) -> Int[Tensor, "hard pos"]:
        """The known sequences with the smallest margins, lowest first; breeds from them."""
        known = torch.cat([self.corners, self.found, self.bred])
        values = margins(model, known)
        parents = known[values.argsort()[: HARDEST // 2]]
        children = self._breed(parents.repeat(CHILDREN, 1), rng)
        bred = torch.cat([self.bred, children])
        values = torch.cat([values, margins(model, children)])
        known = torch.cat([known, children])
        self.bred = bred[values[-len(bred) :].argsort()[:HARDEST]].unique(dim=0)
        return known[values.argsort()[:HARDEST]]

    def _breed(self, sequences: Int[Tensor, "n pos"], rng: torch.Generator) -> Int[Tensor, "n pos"]:
        """Each with another token at one position."""
        n, L = sequences.shape
        children = sequences.clone()
        children[torch.arange(n), torch.randint(L, (n,), generator=rng)] = torch.randint(
            self.config.T, (n,), generator=rng
        )
        return children

    def batches(self, hardest: Int[Tensor, "hard pos"], steps: int, rng: torch.Generator) -> Int[Tensor, "n pos"]:
        """Sequences for `steps` batches of BATCH: fresh ones, corners, the hardest (the harder, the more often) and
        counterexamples, each in random order."""
        T, L = self.config.T, self.config.L

        def pick(rows: Tensor, n: int, preference: int = 1) -> Tensor:
            return rows[(torch.rand((steps, n), generator=rng) ** preference * len(rows)).long()]

        fresh = task.sample("paper", steps * SHARES["fresh"], T=T, L=L, generator=rng).view(steps, -1, L)
        found = self.found if len(self.found) else hardest
        rows = torch.cat(
            [
                fresh,
                pick(self.corners, SHARES["corners"]),
                pick(hardest, SHARES["hardest"], preference=2),
                pick(found, SHARES["found"]),
            ],
            1,
        ).view(-1, L)
        return rows.gather(1, torch.rand(rows.shape, generator=rng).argsort(1))


def two_token_sequences(T: int, L: int) -> Int[Tensor, "n pos"]:
    """All sequences of at most two different tokens, one for each multiset."""
    rows = [[t] * L for t in range(T)]
    rows += [[t] * k + [s] * (L - k) for t in range(T) for s in range(t) for k in range(1, L)]
    return torch.tensor(rows)


def number_of_corners(T: int, L: int) -> int:
    """How many these are."""
    return T + T * (T - 1) // 2 * (L - 1)


@torch.no_grad()
def margins(model: CountingTransformer, sequences: Int[Tensor, "n pos"]) -> Float[Tensor, "n"]:
    """The smallest margin at any position of each: logit of the true count minus the highest other one."""
    smallest = []
    for tokens in sequences.split(min(PART, 4 * batch_size(model.config))):
        right = (task.histogram(tokens) - model.config.first_count).unsqueeze(-1)
        logits = model(tokens)
        gaps = logits.gather(-1, right) - logits.scatter(-1, right, -torch.inf)
        smallest.append(gaps.amin((-1, -2)))
    return torch.cat(smallest) if smallest else torch.zeros(0)
