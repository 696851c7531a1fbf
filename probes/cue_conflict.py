"""Cue conflict: attention compares for one token, and the MLP receives another. Which count does the prediction follow?

A position holds t (count i), in a sequence that also holds s (count j). Its residual path is patched from t to s: the
residual and the position's own value come from a run in which it holds s. The attention pattern stays that of t.

- Relation-based: attention compares, and the MLP does not use the identity. The prediction follows i.
- Inventory-based: the MLP compares the mixture with the identity on the residual path. The prediction follows j. The
  patched position is one more s, so an inventory says j + 1.
- Gated: attention compares and the MLP reads the result token by token. The identity no longer fits the mixture, and
  the prediction follows neither.

Invariance: no prediction changes under a change of basis, a permutation of tokens or hidden units, or a rescaling of
hidden units that keeps the model's function. Slopes are fitted within each pair (t, s), so a constant offset between
tokens, which trained models have, does not count as a conflict. In a model of several layers one block is patched.

The patch uses hook points only: `hook_resid_pre`, `attn.hook_v`, `attn.hook_pattern`, `attn.hook_z`, `hook_resid_mid`.
Any number of heads, positions, output matrices, masks or norms may lie in between. For the paper's blocks, where values
are the identity, it is x' -> x' + (1 + A_ll)(x_s - x_t).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from counting_interp.models.cost import batch_size
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.applicability import check_layer
from counting_interp.probes.designs import conflict_design
from counting_interp.probes.result import Result, Scalar, scalar

Hooks = list[tuple[str | Callable[..., Any], Callable[..., Any]]]  # as TransformerLens types them


@torch.no_grad()
def swap_residual_path(
    model: CountingModel,
    tokens: Int[Tensor, "row pos"],
    donors: Int[Tensor, "row pos"],
    at: Int[Tensor, "row"],
    *,
    layer: int = 0,
) -> Hooks:
    """Hooks for a run on `tokens` that patch the residual path at position `at` from a run on `donors`."""
    block, row, position = f"blocks.{layer}.", torch.arange(len(at)), at + model.config.prefix
    names = [block + "hook_resid_pre", block + "attn.hook_v", block + "attn.hook_pattern"]
    _, cache = model.run_with_cache(tokens, names_filter=names)
    _, donor = model.run_with_cache(donors, names_filter=names[:2])
    residual, value = ((donor[name] - cache[name])[row, position] for name in names[:2])
    weight = cache[names[2]][row, :, position, position, None]

    def add(change: Tensor) -> Callable[[Tensor, nn.Module], Tensor]:
        def hook(activation: Tensor, hook: nn.Module) -> Tensor:
            return activation.index_put((row, position), change, accumulate=True)

        return hook

    return [
        (block + "attn.hook_z", add(weight * value)),
        (block + "hook_resid_mid", add(residual)),
    ]


@dataclass(frozen=True, eq=False)
class CueConflict(Result):
    """Predicted counts over all (i, j), before and after the swap.

    Attributes:
        layer: the block that is patched.
        pairs: the tokens (t, s); the position holds t.
        cells: their counts (i, j).
        predicted: predicted counts with the patch.
        unchanged: predicted counts without it; i in every cell if the model counts correctly.
    """

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
    L: int
    pairs: Int[Tensor, "pair 2"]
    cells: Int[Tensor, "cell 2"]
    predicted: Int[Tensor, "pair cell"]
    unchanged: Int[Tensor, "pair cell"]

    @property
    def slopes(self) -> Float[Tensor, "pair 2"]:
        """For each pair, change of the prediction per unit of i and per unit of j, by least squares."""
        return _slopes(self.predicted, self.cells)

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

    @property
    def follows(self) -> tuple[float, float]:
        """The mean slopes: (1, 0) is relation-based, (0, 1) inventory-based, (0, 0) lost."""
        with_t, with_s = self.slopes.mean(0).tolist()
        return with_t, with_s

    @property
    def share(self) -> float | None:
        """Share of the variance explained by i, of the variance explained by i or j; None if neither explains any."""
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
            "unchanged_follows_t": float(_slopes(self.unchanged, self.cells)[:, 0].mean()),
            "unchanged_says_count_of_t": _mean(self.unchanged == self.cells[:, 0]),
            "pairs": len(self.pairs),
        }


@torch.no_grad()
def cue_conflict(model: CountingModel, *, layer: int = 0, n_pairs: int = 64, seed: int = 0) -> CueConflict:
    """Patch the residual path of block `layer` for up to `n_pairs` pairs of tokens and every (i, j)."""
    config = model.config
    check_layer(config, layer)
    design = conflict_design(config, n_pairs=n_pairs, seed=seed)
    predictions = []
    for rows in design.split(batch_size(config), model.device):
        swap = swap_residual_path(model, rows.tokens, rows.swapped, rows.at, layer=layer)
        position = (torch.arange(len(rows.at)), rows.at)
        logits = [model.run_with_hooks(rows.tokens, fwd_hooks=hooks)[position] for hooks in (swap, [])]
        predictions.append(torch.stack(logits).argmax(-1).cpu() + config.first_count)
    swapped, unchanged = torch.cat(predictions, 1).reshape(2, len(design.pairs), len(design.cells))
    return CueConflict(layer, config.L, design.pairs, design.cells, swapped, unchanged)


def _slopes(predicted: Int[Tensor, "pair cell"], cells: Int[Tensor, "cell 2"]) -> Float[Tensor, "pair 2"]:
    centred = cells.double() - cells.double().mean(0)
    deviations = predicted.double() - predicted.double().mean(1, keepdim=True)
    return deviations @ torch.linalg.pinv(centred).T


def _mean(flags: Tensor) -> float | None:
    return scalar(flags.float().mean()) if flags.numel() else None
