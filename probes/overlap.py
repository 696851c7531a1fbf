"""Embedding overlap: how similar are the tokens, and is there room for all of them?

Orthogonal tokens (d >= T) can be distinguished without error; below that, some overlap at least by the Welch bound.

Invariance: overlaps and cosines do not change under rotations of the embedding space or permutations of tokens.
They **do** change under other basis changes E -> E M that keep the model's function: values are the identity, so W_Q,
W_K and W_in can absorb any invertible M. Raw overlaps change even under rescaling. So compare models by them with care.
`attention` and the data-weighted `spectrum` measure what the later layers receive instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from counting_interp.models import CountingTransformer
from counting_interp.models.constructions.frames import welch_bound
from counting_interp.models.cost import activations
from counting_interp.models.protocol import CountingModel
from counting_interp.probes.result import Result, Scalar, scalar

BINS = {"same": 6, "different": 100, "bos": 10}  # as in the paper's figure


@dataclass(frozen=True, eq=False)
class Histogram:
    """A histogram as a density: the areas of its bars sum to one."""

    series: str
    edges: Float[Tensor, "edge"]
    density: Float[Tensor, "bar"]


@dataclass(frozen=True, eq=False)
class Overlap(Result):
    """Inner products between rows of the embedding table.

    Attributes:
        gram: raw inner products of all rows, `$` last where there is one.
        cosine: cosines of all rows; zero for zero rows.
        coherence: largest |cosine| between two different tokens, without `$`.
        welch: the baseline: the least coherence that T vectors in d dimensions can have.
        effective_dimension: participation ratio of the tokens' cosine matrix. It is T if they are orthogonal, 1 if
            all point the same way, and at most min(T, d).
        raw_dimension: participation ratio of the raw overlaps, where long embeddings weigh more.
    """

    probe: ClassVar[str] = "overlap"
    meanings: ClassVar[dict[str, str]] = {
        "coherence": "largest |cosine| of two tokens' embeddings; 0 if all are orthogonal",
        "welch_bound": "the least that T vectors in d dimensions can have",
        "effective_dimension": "dimensions the directions of the embeddings fill, at most min(T, d)",
        "raw_dimension": "the same with long embeddings weighing more",
        "median_same_raw": "squared length of an embedding",
        "median_different_raw": "inner product of two different tokens",
        "median_bos_raw": "of a token with $",
        "median_bos_bos_raw": "squared length of $",
        "median_different_cosine": "cosine of two different tokens",
        "median_bos_cosine": "of a token with $",
    }
    T: int
    gram: Float[Tensor, "vocab vocab"]
    cosine: Float[Tensor, "vocab vocab"]
    coherence: float
    welch: float
    effective_dimension: float
    raw_dimension: float

    def values(self, series: str, *, cosine: bool = False) -> Float[Tensor, "value"]:
        """The overlaps of a series: `same`, `different` (both orders of each pair), `bos`, or `bos_bos`."""
        matrix = self.cosine if cosine else self.gram
        inner = matrix[: self.T, : self.T]
        if series == "same":
            return inner.diagonal()
        if series == "different":
            return inner[~torch.eye(self.T, dtype=torch.bool)]
        if series == "bos":
            return matrix[self.T :, : self.T].flatten()
        if series == "bos_bos":
            return matrix[self.T :, self.T :].flatten()
        raise ValueError(f"the series are same, different, bos and bos_bos, got {series!r}")

    @property
    def order(self) -> list[int]:
        """The tokens with similar ones next to each other, and `$` last.

        They are sorted along the direction in which their cosines differ most.
        """
        inner = self.cosine[: self.T, : self.T]
        main = torch.linalg.svd(inner - inner.mean(0)).Vh[0]
        ranks = (main if main[0] <= 0 else -main).argsort(stable=True)
        return [*ranks.tolist(), *range(self.T, len(self.cosine))]

    def histograms(self, *, cosine: bool = False) -> tuple[Histogram, ...]:
        """Histograms of same, different and, where there is a `$`, bos, with the bins of the paper's figure."""
        series = [name for name in BINS if len(self.values(name))]
        return tuple(histogram(name, self.values(name, cosine=cosine), BINS[name]) for name in series)

    @property
    def summary(self) -> dict[str, Scalar]:
        medians = {
            f"{series}_{kind}": scalar(self.values(series, cosine=kind == "cosine").median())
            for kind in ("raw", "cosine")
            for series in ("same", "different", "bos", "bos_bos")
            if (series, kind) not in {("same", "cosine"), ("bos_bos", "cosine")} and len(self.values(series))
        }
        return {
            "coherence": self.coherence,
            "welch_bound": self.welch,
            "effective_dimension": self.effective_dimension,
            "raw_dimension": self.raw_dimension,
            **{f"median_{name}": value for name, value in medians.items()},
        }

    def rows(self) -> list[dict[str, Scalar]]:
        return [
            {
                "kind": kind,
                "series": bars.series,
                "bin_lo": float(bars.edges[i]),
                "bin_hi": float(bars.edges[i + 1]),
                "density": float(bars.density[i]),
            }
            for kind in ("raw", "cosine")
            for bars in self.histograms(cosine=kind == "cosine")
            for i in range(len(bars.density))
        ]


@torch.no_grad()
def overlap(model: CountingModel) -> Overlap:
    return overlap_of(embeddings(model), model.config.T)


@torch.no_grad()
def embeddings(model: CountingModel) -> Float[Tensor, "vocab d_model"]:
    """The embedding table of a counting transformer, or its equivalent for another model.

    Of another model it is the residual stream before the first block, averaged over the positions that hold a token.
    A prefix of one position becomes the last row.
    """
    if isinstance(model, CountingTransformer):
        return model.W_E.detach()
    T, L, prefix = model.config.T, model.config.L, model.config.prefix
    (stream,) = activations(model, torch.arange(T)[:, None].repeat(1, L), "blocks.0.hook_resid_pre")
    tokens = stream[:, prefix : prefix + L].mean(1)
    return torch.cat([tokens, stream[:1, 0]]) if prefix == 1 else tokens


def overlap_of(embeddings: Float[Tensor, "vocab d_model"], T: int) -> Overlap:
    """The overlaps of a table with T rows of tokens and an optional row of `$`."""
    table = embeddings.double()
    lengths = table.norm(dim=1, keepdim=True)
    unit = torch.where(lengths > 0, table / lengths, 0)
    gram, cosine = table @ table.T, unit @ unit.T
    different = cosine[:T, :T].abs().masked_fill(torch.eye(T, dtype=torch.bool), 0)
    return Overlap(
        T=T,
        gram=gram,
        cosine=cosine,
        coherence=float(different.max()),
        welch=welch_bound(T, embeddings.shape[1]),
        effective_dimension=_participation(cosine[:T, :T]),
        raw_dimension=_participation(gram[:T, :T]),
    )


def histogram(series: str, values: Float[Tensor, "value"], bins: int) -> Histogram:
    """Density over equal bins from the smallest to the largest value. Where all values agree, a single bar."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-12 * max(abs(low), abs(high), 1.0):
        half = max(0.5, 1e-6 * abs(low))
        edges = torch.tensor([low - half, low + half], dtype=torch.float64)
        return Histogram(series, edges, torch.tensor([0.5 / half], dtype=torch.float64))
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    bin_of = ((values - low) / (high - low) * bins).long().clamp(max=bins - 1)
    density = torch.bincount(bin_of, minlength=bins).double() / (len(values) * (high - low) / bins)
    return Histogram(series, edges, density)


def _participation(gram: Float[Tensor, "n n"]) -> float:
    """(sum of eigenvalues)^2 / sum of their squares, without computing them."""
    squares = gram.square().sum()
    return float(gram.trace() ** 2 / squares) if squares > 0 else 0.0
