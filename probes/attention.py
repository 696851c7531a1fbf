"""Attention: does a position look differently at equal tokens than at different ones?

Relation-based counting needs scores that separate the two. A constant mixer cannot have them, whatever its matrix.
The sign does not matter: a trained bos+sftm model looks away from equal tokens and towards `$`.

Invariance: no change of basis that keeps the model's function changes scores or pattern. Rescaling single tokens, where
attention and embedding cancel it, changes the means and the pooled AUC. The AUC within rows compares the keys of one
query, so rescaling queries does not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from counting_interp.models import CountingTransformer, task
from counting_interp.models.cost import activations, with_attention
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.applicability import check_head, check_layer
from counting_interp.probes.designs import example, letters
from counting_interp.probes.result import Result, Scalar, scalar, variance_share


@dataclass(frozen=True, eq=False)
class PairMeans:
    """Means of scores or pattern over pairs of positions in the sampled sequences; NaN where there are none."""

    diagonal: float  # a position and itself
    equal: float  # different positions, equal tokens
    different: float  # different tokens
    to_bos: float  # a token looking at `$`
    from_bos: float  # `$` looking at a token


@dataclass(frozen=True, eq=False)
class ConstantStructure:
    """Structure of a constant mixing matrix: does it have one value on the diagonal and one elsewhere?"""

    diagonal_mean: float
    diagonal_std: float
    off_diagonal_mean: float
    off_diagonal_std: float
    row_sum_std: float
    two_value_share: float | None  # share of the matrix' variance that two values, on and off the diagonal, explain


@dataclass(frozen=True, eq=False)
class Attention(Result):
    """Scores and pattern of one sequence, and statistics over many.

    Attributes:
        labels: the letters of the sequence, with `$` first where the model prepends it.
        scores, pattern: attention before and after the softmax; equal in models without softmax.
        equal: which pairs of positions hold equal tokens.
        softmax: whether the pattern is a softmax of the scores.
        auc: probability that a pair of equal tokens at different positions scores higher than a pair of different
            ones. The baseline, no separation, is one half.
        head: the head that is shown.
        heads: the patterns of all heads on the sequence.
        auc_within: `auc` within rows: equal against different keys of one query.
        by_position: share of the variance of the off-diagonal pattern that the pair of positions explains. One for a
            constant mixer. None if the entries do not vary.
        by_relation: share of that variance explained by whether the two tokens are equal.
        mixer: structure of the matrix, for constant mixers only.
    """

    probe: ClassVar[str] = "attention"
    meanings: ClassVar[dict[str, str]] = {
        "separation": "how well scores tell equal from different tokens: 0 not at all, 1 always",
        "auc": "chance that equal tokens score higher than different ones: 0 or 1 separates, 0.5 does not",
        "auc_within_rows": "the same among the keys of one query",
        "diagonal_pattern": "mean attention of a position to itself",
        "equal_pattern": "to other positions with the same token",
        "different_pattern": "to positions with another token",
        "to_bos_pattern": "of a token to $",
        "from_bos_pattern": "of $ to a token",
        "variance_by_position": "share of the pattern's variance that goes with the position: 1 if it is constant",
        "variance_by_relation": "share that goes with equal or different",
        "diagonal_mean": "of the constant matrix, on its diagonal",
        "diagonal_std": "standard deviation there",
        "off_diagonal_mean": "of the constant matrix, beside its diagonal",
        "off_diagonal_std": "standard deviation there",
        "row_sum_std": "how far the sums of its rows differ",
        "two_value_share": "share of its variance that two values, on and beside the diagonal, explain",
    }
    layer: int
    head: int
    softmax: bool
    labels: tuple[str, ...]
    tokens: Int[Tensor, "pos"]
    scores: Float[Tensor, "query key"]
    pattern: Float[Tensor, "query key"]
    heads: Float[Tensor, "head query key"]
    equal: Bool[Tensor, "query key"]
    score_means: PairMeans
    pattern_means: PairMeans
    auc: float | None
    auc_within: float | None
    by_position: float | None
    by_relation: float | None
    mixer: ConstantStructure | None
    n_sequences: int

    @property
    def separation(self) -> float | None:
        """How well scores tell equal from different tokens, in either direction: 0 not at all, 1 always."""
        return None if self.auc is None else abs(2 * self.auc - 1)

    @property
    def summary(self) -> dict[str, Scalar]:
        means = {f"{name}_pattern": scalar(value) for name, value in vars(self.pattern_means).items()}
        return {
            "separation": self.separation,
            "auc": self.auc,
            "auc_within_rows": self.auc_within,
            **means,
            "variance_by_position": self.by_position,
            "variance_by_relation": self.by_relation,
            **({} if self.mixer is None else vars(self.mixer)),
        }

    def rows(self) -> list[dict[str, Scalar]]:
        tables = zip(self.equal.tolist(), self.scores.tolist(), self.pattern.tolist(), strict=True)
        return [
            {
                "query_pos": q,
                "key_pos": k,
                "query_token": self.labels[q],
                "key_token": self.labels[k],
                "equal": equal,
                "score": score,
                "pattern": pattern,
            }
            for q, rows in enumerate(tables)
            for k, (equal, score, pattern) in enumerate(zip(*rows, strict=True))
        ]


@torch.no_grad()
def attention(
    model: CountingModel,
    sequence: Int[Tensor, "pos"] | None = None,
    *,
    layer: int = 0,
    head: int | None = None,
    n: int = 512,
    seed: int = 0,
) -> Attention:
    """Scores and pattern of `sequence` (the paper's example by default), and statistics over `n` sampled sequences.

    By default the head that separates equal from different tokens best is shown. In causal models, statistics are over
    the pairs that the mask allows.
    """
    config = model.config
    check_layer(config, layer)
    check_head(config, head)
    n = with_attention(config, n)
    shown = example(config) if sequence is None else sequence
    sampled = task.sample("paper", n, T=config.T, L=config.L, generator=seed)
    given = torch.cat([shown[None], sampled])
    names = (f"blocks.{layer}.attn.hook_attn_scores", f"blocks.{layer}.attn.hook_pattern")
    bos, end = config.prefix, config.prefix + config.L  # positions after the sequence are left out
    every_score, every_pattern = (value[..., :end, :end] for value in activations(model, given, *names))
    tokens = nn.functional.pad(given, (bos, 0), value=config.T)
    equal = tokens[:, :, None] == tokens[:, None, :]

    visible = torch.ones(end, end, dtype=torch.bool)
    visible = visible.tril() if config.causal else visible
    inner_equal, inner_visible = equal[1:, bos:, bos:], visible[bos:, bos:]
    off_diagonal = inner_visible & ~torch.eye(config.L, dtype=torch.bool)
    same, different = inner_equal & off_diagonal, ~inner_equal & inner_visible

    def within(head: int) -> float | None:
        inner = every_score[1:, head, bos:, bos:].masked_fill(~inner_visible, 0)
        return _auc_within(_without_rounding(inner), same, different)

    if head is None:
        head = max(range(config.n_heads), key=lambda each: abs((within(each) or 0.5) - 0.5))
    scores, pattern = every_score[:, head], every_pattern[:, head]
    inner_scores = _without_rounding(scores[1:, bos:, bos:].masked_fill(~inner_visible, 0))
    inner_pattern = pattern[1:, bos:, bos:]
    cells = torch.arange(config.L**2).reshape(config.L, config.L).expand(n, -1, -1)
    return Attention(
        layer=layer,
        head=head,
        softmax=config.softmax,
        labels=letters(tokens[0], config.T),
        tokens=tokens[0],
        scores=scores[0],
        pattern=pattern[0],
        heads=every_pattern[0],
        equal=equal[0],
        score_means=_pair_means(scores[1:], equal[1:], visible, bos),
        pattern_means=_pair_means(pattern[1:], equal[1:], visible, bos),
        auc=auc(inner_scores[same], inner_scores[different]),
        auc_within=_auc_within(inner_scores, same, different),
        by_position=variance_share(inner_pattern[:, off_diagonal], cells[:, off_diagonal]),
        by_relation=variance_share(inner_pattern[:, off_diagonal], same[:, off_diagonal].long()),
        mixer=_mixer(model, layer, head),
        n_sequences=n,
    )


def auc(positive: Float[Tensor, "a"], negative: Float[Tensor, "b"]) -> float | None:
    """Probability that a positive value exceeds a negative one, ties counting half. None if either is empty."""
    if not len(positive) or not len(negative):
        return None
    negative = negative.sort().values
    below = torch.searchsorted(negative, positive, right=False)
    not_above = torch.searchsorted(negative, positive, right=True)
    return float((below + not_above).double().mean() / (2 * len(negative)))


def constant_structure(matrix: Float[Tensor, "query key"]) -> ConstantStructure:
    """Compare the diagonal of a constant mixing matrix with the rest."""
    on_diagonal = torch.eye(len(matrix), dtype=torch.bool)
    diagonal, rest = matrix[on_diagonal], matrix[~on_diagonal]
    return ConstantStructure(
        diagonal_mean=float(diagonal.mean()),
        diagonal_std=float(diagonal.std(correction=0)),
        off_diagonal_mean=float(rest.mean()),
        off_diagonal_std=float(rest.std(correction=0)),
        row_sum_std=float(matrix.sum(-1).std(correction=0)),
        two_value_share=variance_share(matrix, on_diagonal.long()),
    )


def _mixer(model: CountingModel, layer: int, head: int) -> ConstantStructure | None:
    if not isinstance(model, CountingTransformer) or model.config.mixing != "lin":
        return None
    return constant_structure(model.mixing_matrix(layer, head))


def _without_rounding(scores: Float[Tensor, "batch query key"]) -> Float[Tensor, "batch query key"]:
    """Set all scores to zero where they differ by no more than rounding, so that noise cannot separate tokens."""
    rounding = 64 * torch.finfo(scores.dtype).eps * scores.abs().max()
    return torch.zeros_like(scores) if scores.max() - scores.min() <= rounding else scores


def _pair_means(
    weights: Float[Tensor, "batch query key"],
    equal: Bool[Tensor, "batch query key"],
    visible: Bool[Tensor, "query key"],
    bos: int,
) -> PairMeans:
    inner, equal, seen = weights[:, bos:, bos:], equal[:, bos:, bos:], visible[bos:, bos:]
    off_diagonal = equal & seen & ~torch.eye(equal.shape[-1], dtype=torch.bool)
    return PairMeans(
        diagonal=float(inner.diagonal(dim1=-2, dim2=-1).mean()),
        equal=float(inner[off_diagonal].mean()),
        different=float(inner[~equal & seen].mean()),
        to_bos=float(weights[:, bos:, :bos].mean()),
        from_bos=float(weights[:, :bos, bos:][:, visible[:bos, bos:]].mean()),
    )


def _auc_within(
    scores: Float[Tensor, "batch query key"],
    same: Bool[Tensor, "batch query key"],
    different: Bool[Tensor, "batch query key"],
) -> float | None:
    """The mean over queries of the AUC between their equal and their different keys."""
    scores = scores.contiguous()
    n_different = different.sum(-1, keepdim=True)
    others = scores.masked_fill(~different, torch.inf).sort(-1).values  # sorted scores of different keys first
    below = torch.searchsorted(others, scores, right=False).clamp(max=n_different)
    not_above = torch.searchsorted(others, scores, right=True).clamp(max=n_different)
    won = (below + not_above).masked_fill(~same, 0).sum(-1)
    n_pairs = same.sum(-1) * n_different.squeeze(-1)
    rows = n_pairs > 0
    if not rows.any():
        return None
    return float((won[rows].double() / (2 * n_pairs[rows])).mean())
