"""Two causal questions, asked on the same sequences. Does attention compare? Must the rest know the token?

At a position that holds t (count i), in a sequence that also holds s (count j), `probes.interventions` makes two
changes, one at a time:

**Cue conflict.** The self path is swapped from t to s. Attention has compared for t, the feed-forward layer is told s.
Whose count comes out?

- if attention has done the comparison and nobody asks for the identity, the prediction follows i (relation-based);
- if the feed-forward layer compares the mixture with the identity on the self path, the prediction follows j. The
  swapped place is one more s, so an inventory says j + 1 (inventory-based);
- if attention compares and the result is read token by token, the identity no longer fits what attention let through:
  the prediction follows neither.

**Flattening.** The place asks as a stranger, so that attention finds no token equal to its own. What is left of the
count?

- if attention's comparison carries the count, nothing: the answer does not change with i;
- if the feed-forward layer compares by itself, all of it.

Neither uses coordinates: under any change of basis, permutation of tokens or of hidden units, or rescaling of hidden
units that leaves the function as it is, every prediction stays as it is. Predictions are compared within each pair
(t, s), so a constant offset between tokens, which trained models have, is not taken for a conflict.

In a model of several layers the changes are made in one block. What the donor's run gives it is what the block before
has written at a place of another token. Several blocks may compare, and what one finds can do for what another has
lost: whether attention compares at all is asked by flattening every block at once (`layer=None`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models.cost import batch_size
from counting_interp.models.counter import Counter
from counting_interp.probes.applicability import check_layer
from counting_interp.probes.conflict_design import ConflictDesign, conflict_design
from counting_interp.probes.interventions import Hooks, flatten_comparison, record_donor, swap_self_path
from counting_interp.probes.result import Result, Scalar, scalar


@dataclass(frozen=True, eq=False)
class _Intervention(Result):
    """Predicted counts over all (i, j), before and after a change.

    Attributes:
        layer: the block in which the change was made; None: in every block at once.
        pairs: the tokens (t, s); t is at the position.
        cells: their counts (i, j).
        predicted: after the change.
        unchanged: before it; a model that counts says i in every cell.
    """

    layer: int | None
    L: int
    pairs: Int[Tensor, "pair 2"]
    cells: Int[Tensor, "cell 2"]
    predicted: Int[Tensor, "pair cell"]
    unchanged: Int[Tensor, "pair cell"]

    @property
    def slopes(self) -> Float[Tensor, "pair 2"]:
        """Per pair, by how much the prediction changes per unit of i and per unit of j (least squares)."""
        return _slopes(self.predicted, self.cells)

    @property
    def unchanged_slopes(self) -> Float[Tensor, "pair 2"]:
        return _slopes(self.unchanged, self.cells)

    @property
    def unchanged_slope(self) -> float:
        """By how much the prediction follows i before the change: one for a model that counts."""
        return float(self.unchanged_slopes[:, 0].mean())

    @property
    def map(self) -> Float[Tensor, "count_t count_s"]:
        """The mean predicted count for i = 1..L-1 (rows) and j = 1..L-1 (columns); NaN outside the design."""
        table = torch.full((self.L - 1, self.L - 1), torch.nan)
        table[self.cells[:, 0] - 1, self.cells[:, 1] - 1] = self.predicted.float().mean(0)
        return table

    def rows(self) -> list[dict[str, Scalar]]:
        table = zip(self.cells.tolist(), self.predicted.T.float(), self.unchanged.T.float(), strict=True)
        return [
            {
                "count_t": i,
                "count_s": j,
                "predicted_mean": float(after.mean()),
                "predicted_std": float(after.std(correction=0)),
                "unchanged_mean": float(before.mean()),
            }
            for (i, j), after, before in table
        ]


@dataclass(frozen=True, eq=False)
class CueConflict(_Intervention):
    """The self path was swapped from t to s."""

    probe: ClassVar[str] = "cue-conflict"
    layer: int

    @property
    def follows(self) -> tuple[float, float]:
        """The mean slopes: (1, 0) is relation-based, (0, 1) inventory-based, (0, 0) lost."""
        with_t, with_s = self.slopes.mean(0).tolist()
        return with_t, with_s

    @property
    def share(self) -> float | None:
        """Of the variance within pairs that follows either count, the part that follows i; None if nothing does."""
        with_t, with_s = self.slopes.square().mean(0).tolist()
        return scalar(with_t / (with_t + with_s)) if with_t + with_s > 0 else None

    @property
    def summary(self) -> dict[str, Scalar]:
        apart = self.cells[:, 0] != self.cells[:, 1] + 1  # where the two answers differ
        predicted, cells = self.predicted[:, apart], self.cells[apart]
        with_t, with_s = self.follows
        return {
            "follows_t": with_t,
            "follows_s": with_s,
            "share_of_t": self.share,
            "says_count_of_t": _mean(predicted == cells[:, 0]),
            "says_count_of_s_and_one": _mean(predicted == cells[:, 1] + 1),
            "unchanged_follows_t": self.unchanged_slope,
            "unchanged_says_count_of_t": _mean(self.unchanged == self.cells[:, 0]),
            "pairs": len(self.pairs),
        }


@dataclass(frozen=True, eq=False)
class Flattening(_Intervention):
    """The place asked as a token that does not occur."""

    probe: ClassVar[str] = "flattening"

    @property
    def kept(self) -> float | None:
        """How much of the slope over i is left: zero if attention's comparison carries the count, one if nothing
        hangs on it; None if there was no slope."""
        before = self.unchanged_slope
        return scalar(float(self.slopes[:, 0].mean()) / before) if before > 0 else None

    @property
    def summary(self) -> dict[str, Scalar]:
        several = self.cells[:, 0] > 1
        predicted, cells = self.predicted[:, several], self.cells[several]
        return {
            "kept": self.kept,
            "slope": float(self.slopes[:, 0].mean()),
            "unchanged_slope": self.unchanged_slope,
            "says_count_of_t": _mean(predicted == cells[:, 0]),
            "unchanged_says_count_of_t": _mean(self.unchanged == self.cells[:, 0]),
            "pairs": len(self.pairs),
        }


def cue_conflict(model: Counter, *, layer: int = 0, n_pairs: int = 64, seed: int = 0) -> CueConflict:
    """Swap the self path of block `layer` for up to `n_pairs` pairs of tokens and every (i, j)."""
    return interventions(model, layer=layer, n_pairs=n_pairs, seed=seed)[0]


@torch.no_grad()
def flattening(model: Counter, *, layer: int | None = None, n_pairs: int = 64, seed: int = 0) -> Flattening:
    """Flatten the comparison of all blocks, or of block `layer` alone, for up to `n_pairs` pairs and every (i, j)."""
    config = model.config
    if layer is None and config.n_layers == 1:
        layer = 0
    if layer is not None:
        check_layer(config, layer)
    design = conflict_design(config, n_pairs=n_pairs, seed=seed)
    layers = range(config.n_layers) if layer is None else [layer]
    unchanged, flattened = _predictions(model, design, [_nothing, partial(_flattened, layers=layers)])
    return Flattening(layer, config.L, design.pairs, design.cells, flattened, unchanged)


@torch.no_grad()
def interventions(
    model: Counter, *, layer: int = 0, n_pairs: int = 64, seed: int = 0
) -> tuple[CueConflict, Flattening]:
    """Both in one block, on the same sequences and with the same donors."""
    config = model.config
    check_layer(config, layer)
    design = conflict_design(config, n_pairs=n_pairs, seed=seed)
    changes: list[Change] = [_nothing, partial(_swapped, layer=layer), partial(_flattened, layers=[layer])]
    unchanged, swapped, flattened = _predictions(model, design, changes)
    shared = (layer, config.L, design.pairs, design.cells)
    return CueConflict(*shared, swapped, unchanged), Flattening(*shared, flattened, unchanged)


Change = Callable[[Counter, ConflictDesign], Hooks]  # what is done to a model on (a part of) a design


def _nothing(model: Counter, rows: ConflictDesign) -> Hooks:
    return []


def _swapped(model: Counter, rows: ConflictDesign, *, layer: int) -> Hooks:
    return swap_self_path(record_donor(model, rows.told, layer=layer), rows.at)


def _flattened(model: Counter, rows: ConflictDesign, *, layers: Iterable[int]) -> Hooks:
    donors = [record_donor(model, rows.asked, layer=layer) for layer in layers]
    return [hook for donor in donors for hook in flatten_comparison(donor, rows.at, rows.copies)]


def _predictions(
    model: Counter, design: ConflictDesign, changes: Sequence[Change]
) -> Iterator[Int[Tensor, "pair cell"]]:
    """The predicted count at each row's position after each change."""
    parts = []
    for rows in design.split(batch_size(model.config), model.device):
        here = (torch.arange(len(rows.at)), rows.at)
        logits = [model.run_with_hooks(rows.tokens, fwd_hooks=change(model, rows))[here] for change in changes]
        parts.append(torch.stack(logits).argmax(-1).cpu() + model.config.first_count)
    return (one.reshape(len(design.pairs), len(design.cells)) for one in torch.cat(parts, 1))


def _slopes(predicted: Int[Tensor, "pair cell"], cells: Int[Tensor, "cell 2"]) -> Float[Tensor, "pair 2"]:
    centred = cells.double() - cells.double().mean(0)
    deviations = predicted.double() - predicted.double().mean(1, keepdim=True)
    return deviations @ torch.linalg.pinv(centred).T


def _mean(flags: Tensor) -> float | None:
    return scalar(flags.float().mean()) if flags.numel() else None
