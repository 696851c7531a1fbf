"""Cue conflict: attention has compared for one token, the feed-forward layer is told another. Whose count comes out?

At a position that holds t (count i), in a sequence that also holds s (count j), the *self path* is swapped from t to
s: the residual and the diagonal term of the mixing, x' -> x' + (1 + A_ll)(x_s - x_t). What the attention pattern has
gathered from the other positions stays as it is. Then

- if attention has done the comparison, the count of t is in the mixture and the self path is not asked: the
  prediction follows i (relation-based);
- if the feed-forward layer compares the mixture with the identity on the self path, the prediction follows j
  (inventory-based);
- if both are needed at once, the feed-forward layer being gated by an identity that no longer fits what attention
  let through, the prediction follows neither (the paper's `dot, p = T` construction).

The swap uses no coordinates: under any change of basis, permutation of tokens or of hidden units, or rescaling of
hidden units that leaves the function as it is, every prediction stays as it is. Predictions are compared within each
pair (t, s), so a constant offset between tokens, which trained models have, is not taken for a conflict.

In a two-layer model the swap is made in one block: its self path then carries what the previous block wrote at a
position of t, and receives what it wrote at a position of s in the same sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from models import CountingTransformer
from models.evaluation import batch_size
from probes.applicability import check_layer
from probes.conflict_design import ConflictDesign, conflict_design
from probes.result import Result, Scalar, scalar

Hooks = list[tuple[str | Callable[..., Any], Callable[..., Any]]]  # as TransformerLens types them


@dataclass(frozen=True, eq=False)
class CueConflict(Result):
    """Predicted counts over all (i, j), before and after the swap.

    Attributes:
        layer: the block whose self path was swapped.
        pairs: the tokens (t, s); t is at the position, s is what the self path is told.
        cells: their counts (i, j).
        predicted: after the swap.
        unswapped: before it; a model that counts says i in every cell.
    """

    probe: ClassVar[str] = "cue-conflict"
    layer: int
    L: int
    pairs: Int[Tensor, "pair 2"]
    cells: Int[Tensor, "cell 2"]
    predicted: Int[Tensor, "pair cell"]
    unswapped: Int[Tensor, "pair cell"]

    @property
    def slopes(self) -> Float[Tensor, "pair 2"]:
        """Per pair, by how much the prediction changes per unit of i and per unit of j (least squares)."""
        return _slopes(self.predicted, self.cells)

    @property
    def follows(self) -> tuple[float, float]:
        """The mean slopes: (1, 0) is relation-based, (0, 1) inventory-based, (0, 0) lost."""
        with_t, with_s = self.slopes.mean(0).tolist()
        return with_t, with_s

    @property
    def unswapped_slope(self) -> float:
        """By how much the prediction follows i before the swap: one for a model that counts."""
        return float(_slopes(self.unswapped, self.cells)[:, 0].mean())

    @property
    def share(self) -> float | None:
        """Of the variance within pairs that follows either count, the part that follows i; None if nothing does."""
        with_t, with_s = self.slopes.square().mean(0).tolist()
        return scalar(with_t / (with_t + with_s)) if with_t + with_s > 0 else None

    @property
    def map(self) -> Float[Tensor, "count_t count_s"]:
        """The mean predicted count for i = 1..L-1 (rows) and j = 1..L-1 (columns); NaN outside the design."""
        table = torch.full((self.L - 1, self.L - 1), torch.nan)
        table[self.cells[:, 0] - 1, self.cells[:, 1] - 1] = self.predicted.float().mean(0)
        return table

    @property
    def summary(self) -> dict[str, Scalar]:
        conflict = self.cells[:, 0] != self.cells[:, 1]
        predicted, cells = self.predicted[:, conflict], self.cells[conflict]
        with_t, with_s = self.follows
        return {
            "follows_t": with_t,
            "follows_s": with_s,
            "share_of_t": self.share,
            "says_count_of_t": _mean(predicted == cells[:, 0]),
            "says_count_of_s": _mean(predicted == cells[:, 1]),
            "unswapped_follows_t": self.unswapped_slope,
            "unswapped_says_count_of_t": _mean(self.unswapped == self.cells[:, 0]),
            "pairs": len(self.pairs),
        }

    def rows(self) -> list[dict[str, Scalar]]:
        table = zip(self.cells.tolist(), self.predicted.T.float(), self.unswapped.T.float(), strict=True)
        return [
            {
                "count_t": i,
                "count_s": j,
                "predicted_mean": float(after.mean()),
                "predicted_std": float(after.std(correction=0)),
                "unswapped_mean": float(before.mean()),
            }
            for (i, j), after, before in table
        ]


@torch.no_grad()
def cue_conflict(model: CountingTransformer, *, layer: int = 0, n_pairs: int = 128, seed: int = 0) -> CueConflict:
    """Swap the self path of block `layer` for up to `n_pairs` pairs of tokens and every (i, j)."""
    config = model.config
    check_layer(config, layer)
    design = conflict_design(config, n_pairs=n_pairs, seed=seed)
    shape = (len(design.pairs), len(design.cells))
    return CueConflict(
        layer=layer,
        L=config.L,
        pairs=design.pairs,
        cells=design.cells,
        predicted=_predictions(model, design, layer).reshape(shape),
        unswapped=_predictions(model, design, None).reshape(shape),
    )


def swap_self_path(
    model: CountingTransformer, at: Int[Tensor, "row"], source: Int[Tensor, "row"], *, layer: int = 0
) -> Hooks:
    """Hooks for `run_with_hooks`: in each sequence, position `at` is told on its self path that it is `source`."""
    block = f"blocks.{layer}."
    row, bos = torch.arange(len(at)), int(model.config.has_bos)
    here, there = at + bos, source + bos
    seen: dict[str, Tensor] = {}

    def read_residual(resid_pre: Tensor, hook: HookPoint) -> None:
        seen["difference"] = resid_pre[row, there] - resid_pre[row, here]

    def read_diagonal(pattern: Tensor, hook: HookPoint) -> None:
        seen["diagonal"] = pattern[row, 0, here, here]

    def swap(resid_mid: Tensor, hook: HookPoint) -> Tensor:
        swapped = resid_mid.clone()
        swapped[row, here] += (1 + seen["diagonal"])[:, None] * seen["difference"]
        return swapped

    return [
        (block + "hook_resid_pre", read_residual),
        (block + "attn.hook_pattern", read_diagonal),
        (block + "hook_resid_mid", swap),
    ]


def _predictions(model: CountingTransformer, design: ConflictDesign, layer: int | None) -> Int[Tensor, "row"]:
    """The predicted count at each row's position, with the swap in block `layer`, or without one."""
    parts = []
    size = batch_size(model.config)
    for tokens, at, source in zip(
        design.tokens.split(size), design.at.split(size), design.source.split(size), strict=True
    ):
        hooks = [] if layer is None else swap_self_path(model, at, source, layer=layer)
        logits = model.run_with_hooks(tokens, fwd_hooks=hooks)
        parts.append(logits[torch.arange(len(at)), at].argmax(-1) + model.config.first_count)
    return torch.cat(parts).cpu()


def _slopes(predicted: Int[Tensor, "pair cell"], cells: Int[Tensor, "cell 2"]) -> Float[Tensor, "pair 2"]:
    centred = cells.double() - cells.double().mean(0)
    deviations = predicted.double() - predicted.double().mean(1, keepdim=True)
    return deviations @ torch.linalg.pinv(centred).T


def _mean(flags: Tensor) -> float | None:
    return scalar(flags.float().mean()) if flags.numel() else None
