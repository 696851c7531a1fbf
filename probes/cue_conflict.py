"""Two causal questions, asked on the same sequences. Does attention compare? Must the rest know the token?

At a position that holds t (count i), in a sequence that also holds s (count j), two changes are made,
one at a time:

**Cue conflict.** The residual path is swapped from t to s. Attention has compared for t, the feed-forward layer sees s.
Whose count comes out?

- if attention has done the comparison and nobody asks for the identity, the prediction follows i (relation-based);
- if the feed-forward layer compares the mixture with the identity on the residual path, the prediction follows j. The
  swapped position is one more s, so an inventory says j + 1 (inventory-based);
- if attention compares and the result is read token by token, the identity no longer fits what attention let through:
  the prediction follows neither.

**Flattening.** The position asks as an absent token, so that attention finds no token equal to its own. What is left of
the count?

- if attention's comparison carries the count, nothing: the answer does not change with i;
- if the feed-forward layer compares by itself, all of it.

Neither uses coordinates: under any change of basis, permutation of tokens or of hidden units, or rescaling of hidden
units that leaves the function as it is, every prediction stays as it is. Predictions are compared within each pair
(t, s), so a constant offset between tokens, which trained models have, is not taken for a conflict.

In a model of several layers the changes are made in one block. What the donor's run gives it is what the block before
has written at a position of another token. Several blocks may compare, and what one finds can do for what another has
lost: whether attention compares at all is asked by flattening every block at once (`layer=None`).

The interventions are made of hook points and nothing else.

At a position that holds t, an attention block adds two things to the stream: what the position gives itself (its
residual, and its own value through every head), and what its heads gather from the other positions. The interventions
change one of them, with activations from a *donor* run, in which some positions hold other tokens:

- **Swap the residual path**: the position's residual and its own value become those of a run in which it holds s. The
  pattern stays. Attention has compared for t, the feed-forward layer sees s.
- **Flatten the comparison**: the position asks as an absent token. Its row of attention scores becomes that of a run in
  which it holds u, a token that does not occur, so that attention finds nothing equal. The weight on the position
  itself stays. Residual and values stay: what is gathered still holds every copy of t.

Why an absent token's whole row, and not its score for the keys that hold t? Trained models without softmax let
scores and values compensate each other token by token: S_tu F_u is about the same for every u, S_tu is not. One entry
of a row put in place of another is then wrong by the ratio of two values, and leaves up to 0.6 of the count (1.0 in a
model with one hidden unit) where attention does all the comparing. A row by itself fits the values it meets.

They name hook points only: `hook_resid_pre`, `attn.hook_v`, `attn.hook_attn_scores`, `attn.hook_pattern`,
`attn.hook_z`, `hook_resid_mid`, with any number of heads, positions, output matrices, masks or norms in between. For
the paper's blocks, where values are the identity, the first is x' -> x' + (1 + A_ll)(x_s - x_t); the second puts S_u in
place of S_t but for the diagonal, and for a constant mixer it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from counting_interp.models.cost import batch_size
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.applicability import check_layer
from counting_interp.probes.designs import ConflictDesign, conflict_design
from counting_interp.probes.result import Result, Scalar, scalar

SCORES = ("attn.hook_attn_scores", "attn.hook_pattern")
Hooks = list[tuple[str | Callable[..., Any], Callable[..., Any]]]  # as TransformerLens types them


@dataclass(frozen=True, eq=False)
class Donor:
    """What one block held in a run on other sequences.

    Attributes:
        prefix: positions, such as `$`, that come before the tokens.
        normalised: whether scores go through a softmax, so that only their differences matter.
    """

    layer: int
    prefix: int
    normalised: bool
    resid_pre: Float[Tensor, "row inner_pos d_model"]
    value: Float[Tensor, "row inner_pos head d_head"]
    scores: Float[Tensor, "row head query key"]

    @property
    def block(self) -> str:
        return f"blocks.{self.layer}."


@torch.no_grad()
def record_donor(model: CountingModel, tokens: Int[Tensor, "row pos"], *, layer: int = 0) -> Donor:
    """Run the model on `tokens` and keep what the interventions in block `layer` need."""
    names = [f"blocks.{layer}.{hook}" for hook in ("hook_resid_pre", "attn.hook_v", *SCORES)]
    _, cache = model.run_with_cache(tokens, names_filter=names)
    resid_pre, value, scores, pattern = (cache[name] for name in names)
    return Donor(layer, model.config.prefix, not torch.equal(scores, pattern), resid_pre, value, scores)


def swap_residual_path(donor: Donor, at: Int[Tensor, "row"]) -> Hooks:
    """Hooks for `run_with_hooks`: in each sequence, position `at` is given its self path in the donor's run."""
    row, here = torch.arange(len(at)), at + donor.prefix
    seen: dict[str, Tensor] = {}

    def read_residual(resid_pre: Tensor, hook: nn.Module) -> None:
        seen["residual"] = donor.resid_pre[row, here] - resid_pre[row, here]

    def read_value(value: Tensor, hook: nn.Module) -> None:
        seen["value"] = donor.value[row, here] - value[row, here]

    def read_diagonal(pattern: Tensor, hook: nn.Module) -> None:
        seen["weight"] = pattern[row, :, here, here]

    def swap_value(z: Tensor, hook: nn.Module) -> Tensor:
        swapped = z.clone()
        swapped[row, here] += seen["weight"][..., None] * seen["value"]
        return swapped

    def swap_residual(resid_mid: Tensor, hook: nn.Module) -> Tensor:
        swapped = resid_mid.clone()
        swapped[row, here] += seen["residual"]
        return swapped

    return [
        (donor.block + "hook_resid_pre", read_residual),
        (donor.block + "attn.hook_v", read_value),
        (donor.block + "attn.hook_pattern", read_diagonal),
        (donor.block + "attn.hook_z", swap_value),
        (donor.block + "hook_resid_mid", swap_residual),
    ]


def flatten_comparison(donor: Donor, at: Int[Tensor, "row"], copies: Bool[Tensor, "row pos"]) -> Hooks:
    """Hooks for `run_with_hooks`: in each sequence, position `at` asks the others as it does in the donor's run.

    A softmax sees differences of scores alone, and a whole row may lie higher than another without saying anything. So
    there the donor's row is moved such that the positions which hold no copy of the token together weigh
    as much as before; then the weight of the position itself, against them, is what it was.
    """
    row, here = torch.arange(len(at)), at + donor.prefix

    def ask_as_donor(scores: Tensor, hook: nn.Module) -> Tensor:
        own, asked = scores[row, :, here], donor.scores[row, :, here]  # [row, head, key]
        itself = torch.zeros(len(at), own.shape[-1], dtype=torch.bool, device=own.device)
        itself[row, here] = True
        if donor.normalised:
            behind = own.shape[-1] - donor.prefix - copies.shape[1]
            equal = itself | torch.nn.functional.pad(copies.to(own.device), (donor.prefix, behind))
            asked = asked + _total(own, equal) - _total(asked, equal)
        flattened = scores.clone()
        flattened[row, :, here] = torch.where(itself[:, None], own, asked)
        return flattened

    return [(donor.block + SCORES[0], ask_as_donor)]


def _total(scores: Float[Tensor, "row head key"], without: Bool[Tensor, "row key"]) -> Float[Tensor, "row head 1"]:
    """The logarithm of the weight of all keys but some; zero where a mask leaves none."""
    total = scores.masked_fill(without[:, None], -torch.inf).logsumexp(-1, keepdim=True)
    return total.nan_to_num(neginf=0.0)


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
    meanings: ClassVar[dict[str, str]] = {
        "follows_t": "change of the answer per copy of t; 1 if attention's comparison decides",
        "follows_s": "change per copy of s, whom the residual path names; 1 in an inventory",
        "share_of_t": "share of the answer's variance that goes with the count of t",
        "says_count_of_t": "share of cells that are answered with the count of t",
        "says_count_of_s_and_one": "with that of s and one more, as an inventory would",
        "unchanged_follows_t": "follows t before the change: 1 in a model that counts",
        "unchanged_says_count_of_t": "share of correct answers before the change",
        "pairs": "pairs (t, s) that were tried",
    }
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
    """The position asked as a token that does not occur."""

    probe: ClassVar[str] = "flattening"
    meanings: ClassVar[dict[str, str]] = {
        "kept": "what is left of the count without attention's comparison: 0 nothing, 1 all",
        "slope": "change of the answer per copy of t, after",
        "unchanged_slope": "and before: 1 in a model that counts",
        "says_count_of_t": "share of cells with t more than once that are still right",
        "unchanged_says_count_of_t": "share of correct answers before the change",
        "pairs": "pairs (t, s) that were tried",
    }

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


def cue_conflict(model: CountingModel, *, layer: int = 0, n_pairs: int = 64, seed: int = 0) -> CueConflict:
    """Swap the self path of block `layer` for up to `n_pairs` pairs of tokens and every (i, j)."""
    return interventions(model, layer=layer, n_pairs=n_pairs, seed=seed)[0]


@torch.no_grad()
def flattening(model: CountingModel, *, layer: int | None = None, n_pairs: int = 64, seed: int = 0) -> Flattening:
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
    model: CountingModel, *, layer: int = 0, n_pairs: int = 64, seed: int = 0
) -> tuple[CueConflict, Flattening]:
    """Both in one block, on the same sequences and with the same donors."""
    config = model.config
    check_layer(config, layer)
    design = conflict_design(config, n_pairs=n_pairs, seed=seed)
    changes: list[Change] = [_nothing, partial(_swapped, layer=layer), partial(_flattened, layers=[layer])]
    unchanged, swapped, flattened = _predictions(model, design, changes)
    shared = (layer, config.L, design.pairs, design.cells)
    return CueConflict(*shared, swapped, unchanged), Flattening(*shared, flattened, unchanged)


Change = Callable[[CountingModel, ConflictDesign], Hooks]  # what is done to a model on (a part of) a design


def _nothing(model: CountingModel, rows: ConflictDesign) -> Hooks:
    return []


def _swapped(model: CountingModel, rows: ConflictDesign, *, layer: int) -> Hooks:
    return swap_residual_path(record_donor(model, rows.swapped, layer=layer), rows.at)


def _flattened(model: CountingModel, rows: ConflictDesign, *, layers: Iterable[int]) -> Hooks:
    donors = [record_donor(model, rows.absent, layer=layer) for layer in layers]
    return [hook for donor in donors for hook in flatten_comparison(donor, rows.at, rows.copies)]


def _predictions(
    model: CountingModel, design: ConflictDesign, changes: Sequence[Change]
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
