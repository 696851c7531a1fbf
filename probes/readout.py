"""Read-out: do all tokens share one direction for the count, or does each token have its own?

The probe reads the pre-activations of the last MLP, at positions that hold token t with count k, every (t, k) equally
often. It gives three answers:

- **Transfer**, an intervention without a choice of directions. It adds to a position of t the displacement that takes
  another token s from count k to k'. With a shared direction the prediction moves to k' for every s. With an inventory
  s and t have different units, and the prediction stays at k.
- **Rank**. It keeps each token's mean, and of the deviations from it only the part along the r directions with most
  count variance. A shared direction needs one or a few directions, an inventory about T.
- **Variance** by token, by count (the same for all tokens), by both together (different for each token), and the rest.

Directions and variances use the metric of the logits, G = mean over positions of J^T J. J maps a small change of the
pre-activations to the logits, up to an equal shift of all logits. In this metric permuting and rescaling hidden units
change nothing, and units without effect on the logits do not count.

`LastLayer` maps those pre-activations to the answer. For counting transformers it is a formula, since that MLP is last
and has no residual around it. For any other model it is the model itself, with the pre-activations of one position
patched in. So residuals, norms and an unembedding are included. A test checks that both agree where both are defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from counting_interp.models import CountingTransformer
from counting_interp.models.cost import batch_size
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.designs import every_count
from counting_interp.probes.result import Result, Scalar, scalar

ENOUGH = 0.95  # of the full accuracy: what `directions` must keep
UNREAD = 0.01  # weight of a combination of units without effect on the logits, relative to the units
HUGE = 1e60  # overflowing pre-activations are clamped here, so that squares stay finite
DENSE_RANKS = 40  # every rank up to this is tried, spaced ones beyond


@dataclass(frozen=True, eq=False)
class Readout(Result):
    """How the pre-activations of the last block carry the count.

    Attributes:
        T: size of the alphabet; an inventory needs about as many directions.
        accuracy: without intervention, every count 1..L equally often.
        ranks, rank_accuracy: accuracy when only so many directions carry the count; the baseline is rank 0.
        pairs: (t, s); s gives the displacement.
        transferred: change of the prediction per unit of k' - k under the displacement of s, for each pair.
        own: the same under t's own displacement. It is one, up to errors of the model, and the scale of `transferred`.
        by_token, by_count, by_both, by_rest: shares of the variance of the pre-activations.
    """

    probe: ClassVar[str] = "readout"
    meanings: ClassVar[dict[str, str]] = {
        "transfer": "effect of another token's displacement, in units of the count: 1 shared, 0 inventory",
        "own_displacement": "effect of the token's own: 1 up to errors",
        "directions": "fewest directions of the pre-activations that keep 95 % of the accuracy",
        "alphabet": "T: about as many directions as an inventory needs",
        "accuracy": "nothing taken away, every count equally often",
        "accuracy_rank_0": "if no direction carries the count",
        "accuracy_rank_1": "if one does",
        "variance_by_token": "share of the pre-activations' variance that goes with the token",
        "variance_by_count": "with the count, equally for all tokens",
        "variance_by_both": "with the count, differently for each token",
        "variance_rest": "with the other tokens of the sequence",
    }
    T: int
    accuracy: float
    ranks: Int[Tensor, "rank"]
    rank_accuracy: Float[Tensor, "rank"]
    pairs: Int[Tensor, "pair 2"]
    transferred: Float[Tensor, "pair"]
    own: Float[Tensor, "token"]
    by_token: float | None
    by_count: float | None
    by_both: float | None
    by_rest: float | None

    @property
    def transfer(self) -> float:
        """Mean of `transferred`: one for a shared direction, zero for an inventory."""
        return float(self.transferred.mean())

    @property
    def directions(self) -> int:
        """The smallest rank that keeps 95 % of the accuracy."""
        enough = self.rank_accuracy >= ENOUGH * self.accuracy
        return int(self.ranks[enough.long().argmax()] if enough.any() else self.ranks[-1])

    @property
    def summary(self) -> dict[str, Scalar]:
        return {
            "transfer": self.transfer,
            "own_displacement": float(self.own.mean()),
            "directions": self.directions,
            "alphabet": self.T,
            "accuracy": self.accuracy,
            "accuracy_rank_0": float(self.rank_accuracy[0]),
            "accuracy_rank_1": float(self.rank_accuracy[:2][-1]),
            "variance_by_token": self.by_token,
            "variance_by_count": self.by_count,
            "variance_by_both": self.by_both,
            "variance_rest": self.by_rest,
        }

    def rows(self) -> list[dict[str, Scalar]]:
        table = zip(self.ranks.tolist(), self.rank_accuracy.tolist(), strict=True)
        return [{"rank": rank, "accuracy": accuracy} for rank, accuracy in table]


@torch.no_grad()
def readout(model: CountingModel, *, repeats: int = 4, donors: int = 8, seed: int = 0) -> Readout:
    """Measure on `repeats` sequences for each (token, count), with `donors` other tokens for each token."""
    config = model.config
    sequences, where = every_count(config, repeats, seed)
    tokens, at = sequences.reshape(-1, config.L), where.reshape(-1)
    rest = last_layer(model, tokens, at)
    pre = _pre_activations(model, tokens, at)
    to_metric, from_metric = _coordinates(rest.metric(pre))
    pre, of = pre.reshape(*where.shape, -1), torch.arange(len(at)).reshape(where.shape)
    counts = torch.arange(1, config.L + 1)
    accuracy = float((rest.predict(pre, of) == counts[:, None]).double().mean())
    ranks, rank_accuracy = _rank_curve(rest, pre, of, to_metric, from_metric)
    pairs = _donor_pairs(config.T, donors, seed)
    themselves = torch.arange(config.T)[:, None].expand(-1, 2)
    return Readout(
        T=config.T,
        accuracy=accuracy,
        ranks=ranks,
        rank_accuracy=rank_accuracy,
        pairs=pairs,
        transferred=_transfer(rest, pre, of, pairs),
        own=_transfer(rest, pre, of, themselves),
        **_variances(pre @ to_metric),
    )


def _pre_activations(
    model: CountingModel, tokens: Int[Tensor, "row pos"], where: Int[Tensor, "row"]
) -> Float[Tensor, "row d_mlp"]:
    """Pre-activations of the last block in float64, at one position of each sequence."""
    name = f"blocks.{model.config.n_layers - 1}.mlp.hook_pre"
    kept: list[Tensor] = []
    size = batch_size(model.config)
    for batch, at in zip(tokens.split(size), (where + model.config.prefix).split(size), strict=True):

        def keep(pre: Tensor, hook: nn.Module, at: Tensor = at) -> None:
            kept.append(pre[torch.arange(len(at)), at].double())

        model.run_with_hooks(batch, fwd_hooks=[(name, keep)])
    return torch.cat(kept).cpu().nan_to_num().clamp(-HUGE, HUGE)


def _coordinates(
    metric: Float[Tensor, "d_mlp d_mlp"],
) -> tuple[Float[Tensor, "d_mlp metric"], Float[Tensor, "metric d_mlp"]]:
    """Maps into coordinates in which the metric is the identity, and back. Units that are never active are dropped."""
    scale = metric.diagonal().sqrt()
    used = scale > 0
    scale = scale[used]
    relative = metric[used][:, used] / scale.outer(scale) + UNREAD * torch.eye(len(scale), dtype=torch.float64)
    values, vectors = torch.linalg.eigh(relative)
    roots = values.clamp_min(UNREAD / 2).sqrt()
    to_metric, from_metric = metric.new_zeros(len(used), len(scale)), metric.new_zeros(len(scale), len(used))
    to_metric[used] = scale[:, None] * vectors * roots
    from_metric[:, used] = (vectors / roots).T / scale
    return to_metric, from_metric


def _rank_curve(
    rest: LastLayer,
    pre: Float[Tensor, "token count repeat d_mlp"],
    of: Int[Tensor, "token count repeat"],
    to_metric: Float[Tensor, "d_mlp metric"],
    from_metric: Float[Tensor, "metric d_mlp"],
) -> tuple[Int[Tensor, "rank"], Float[Tensor, "rank"]]:
    token_means = pre.mean((1, 2), keepdim=True)
    deviations = (pre - token_means) @ to_metric
    by_count = deviations.mean(2).flatten(0, 1)
    directions = torch.linalg.svd(by_count, full_matrices=False).Vh  # most count variance first
    counts = torch.arange(1, pre.shape[1] + 1)[:, None]
    n = len(directions)
    ranks = torch.unique(torch.cat([torch.arange(min(n, DENSE_RANKS) + 1), torch.linspace(0, n, 13).long()]))
    parts, back = deviations @ directions.T, directions @ from_metric
    kept, accuracies = token_means.expand_as(pre).clone(), []
    for rank in range(n + 1):
        if rank:
            kept += parts[..., rank - 1, None] * back[rank - 1]
        if rank in ranks:
            accuracies.append((rest.predict(kept, of) == counts).double().mean())
    return ranks, torch.stack(accuracies)


def _donor_pairs(T: int, donors: int, seed: int) -> Int[Tensor, "pair 2"]:
    distances = torch.randperm(T - 1, generator=torch.Generator().manual_seed(seed))[:donors] + 1
    tokens = torch.arange(T).repeat_interleave(len(distances))
    return torch.stack([tokens, (tokens + distances.repeat(T)) % T], 1)


def _transfer(
    rest: LastLayer,
    pre: Float[Tensor, "token count repeat d_mlp"],
    of: Int[Tensor, "token count repeat"],
    pairs: Int[Tensor, "pair 2"],
) -> Float[Tensor, "pair"]:
    """For each pair (t, s), the slope of the prediction against k' when t at count k gets s's displacement to k'."""
    path = pre.mean(2)  # [token, count, d_mlp]
    counts = torch.arange(1, pre.shape[1] + 1).double()
    weights = (counts - counts.mean()) / (counts - counts.mean()).square().sum()
    slopes = []
    for batch in pairs.split(32):
        t, s = batch.T
        moved = pre[t][:, :, None, 0] + path[s][:, None, :] - path[s][:, :, None]  # [pair, k, k', d_mlp]
        sequence = of[t][:, :, None, 0].expand(moved.shape[:-1])
        slopes.append(rest.predict(moved, sequence).double().mean(1) @ weights)
    return torch.cat(slopes)


def _variances(pre: Float[Tensor, "token count repeat metric"]) -> dict[str, float | None]:
    """Two-way analysis of variance with the factors token and count, as shares that sum to one."""
    centred = pre - pre.mean((0, 1, 2))
    cell = centred.mean(2, keepdim=True)
    token, count = cell.mean(1, keepdim=True), cell.mean(0, keepdim=True)
    parts = {"by_token": token, "by_count": count, "by_both": cell - token - count, "by_rest": centred - cell}
    total = centred.square().sum()
    return {
        name: scalar(part.expand_as(centred).square().sum() / total) if total > 0 else None
        for name, part in parts.items()
    }


@runtime_checkable
class LastLayer(Protocol):
    def predict(self, pre: Float[Tensor, "*batch d_mlp"], of: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """The counts predicted from these pre-activations; `of` is the index of the sequence of each."""

    def metric(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "d_mlp d_mlp"]:
        """Mean over rows of J^T J, where J is the Jacobian from `pre` to the logits minus their mean."""


def last_layer(model: CountingModel, tokens: Int[Tensor, "row pos"], at: Int[Tensor, "row"]) -> LastLayer:
    return ByFormula(model) if isinstance(model, CountingTransformer) else ByHooks(model, tokens, at)


class ByFormula:
    """The formula of a counting transformer, in float64."""

    def __init__(self, model: CountingTransformer) -> None:
        self.model, self.mlp = model, model.blocks[-1].mlp

    def predict(self, pre: Float[Tensor, "*batch d_mlp"], of: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        logits = self.mlp.activation(pre) @ self.mlp.W_out.double().cpu() + self.mlp.b_out.double().cpu()
        return logits.argmax(-1) + self.model.config.first_count

    def metric(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "d_mlp d_mlp"]:
        W_out = self.mlp.W_out.double().cpu()
        effect = W_out - W_out.mean(1, keepdim=True)
        active = self._slopes(pre)
        return (active.T @ active / len(active)) * (effect @ effect.T)

    def _slopes(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "row d_mlp"]:
        """Derivative of the activation at each hidden unit: 0 or 1 for a ReLU."""
        with torch.enable_grad():
            at = pre.detach().requires_grad_()
            (slopes,) = torch.autograd.grad(self.mlp.activation(at).sum(), at)
        return slopes


class ByHooks:
    """The model run with patched pre-activations, in its own precision."""

    def __init__(self, model: CountingModel, tokens: Int[Tensor, "row pos"], at: Int[Tensor, "row"]) -> None:
        self.model, self.tokens, self.at = model, tokens, at
        self.size = batch_size(model.config)

    def predict(self, pre: Float[Tensor, "*batch d_mlp"], of: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        batches = zip(pre.reshape(-1, pre.shape[-1]).split(self.size), of.reshape(-1).split(self.size), strict=True)
        counts = [self._logits(batch, rows).argmax(-1) for batch, rows in batches]
        return torch.cat(counts).cpu().reshape(of.shape) + self.model.config.first_count

    def metric(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "d_mlp d_mlp"]:
        total = pre.new_zeros(pre.shape[-1], pre.shape[-1])
        for batch, rows in zip(pre.split(self.size), torch.arange(len(pre)).split(self.size), strict=True):
            with torch.enable_grad():
                written = batch.detach().requires_grad_()
                logits = self._logits(written, rows)
                by_class = [torch.autograd.grad(logit.sum(), written, retain_graph=True)[0] for logit in logits.T]
            jacobian = torch.stack(by_class)  # [class, row, d_mlp]
            effect = (jacobian - jacobian.mean(0)).flatten(0, 1)
            total += effect.T @ effect
        return total / len(pre)

    def _logits(self, pre: Float[Tensor, "part d_mlp"], rows: Int[Tensor, "part"]) -> Float[Tensor, "part class"]:
        config = self.model.config
        each, at = torch.arange(len(rows)), self.at[rows]

        def write(value: Tensor, hook: nn.Module) -> Tensor:
            written = value.clone()
            written[each, at + config.prefix] = pre.to(value)
            return written

        name = f"blocks.{config.n_layers - 1}.mlp.hook_pre"
        return self.model.run_with_hooks(self.tokens[rows], fwd_hooks=[(name, write)])[each, at]
