"""W1 spectrum: how many directions does an MLP read, and which?

Relation-based counting needs one direction. An inventory needs one for each token, and then the singular values of W_in
drop at index T. Weights may also read directions in which the data never vary. So the `seen` spectrum is that of the
data: standard deviations of the pre-activations along their principal axes.

Invariance: the spectrum of W_in is invariant under rotations of the embedding space and permutations of hidden units.
It changes under other changes of basis and under rescaling of hidden units. The seen spectrum does not depend on the
basis of the embedding space; it still scales with the hidden units.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.models import CountingTransformer, task
from counting_interp.models.cost import activations, affordable
from counting_interp.probes.applicability import check_finite, check_layer
from counting_interp.probes.designs import letter
from counting_interp.probes.result import Result, Scalar

NEAREST = 3  # tokens named for each direction


@dataclass(frozen=True, eq=False)
class Spectrum(Result):
    """Singular values of W_in of one block, bare and weighted by the data.

    Attributes:
        sigma: singular values of W_in, descending.
        top: for each singular value the tokens closest to its direction, of either sign; `$` is T.
        seen: standard deviations of the pre-activations along their principal axes, descending.
        drop: sigma[T-1] / sigma[T], the drop at the size of the alphabet. Infinite if all values from index T on are
            zero. None if there are at most T values, or sigma[T-1] is zero.
        participation: (sum sigma^2)^2 / sum sigma^4, the effective number of directions.
        seen_participation: the same of the seen spectrum.
        token_energy: share of W_in's energy along a token, mean over tokens.
        energy_baseline: 1/d, the token_energy of a layer without preferred directions.
        span_energy: share of W_in's energy within the span of all tokens.
        span_baseline: dimension of that span over d.
        bos_energy: share of W_in's energy along `$`; None in models without `$`.
        seen_along_bos: share of the pre-activations' variance along the image of `$`. With softmax, of `$` minus the
            mean token, since their weights sum to one. None in models without `$`.

    After the first block, "token" means the mean residual stream of the positions that hold it.
    """

    probe: ClassVar[str] = "spectrum"
    meanings: ClassVar[dict[str, str]] = {
        "drop_at_T": "singular value T of W1 over the next: well above 1 if W1 uses one direction per token",
        "participation": "effective number of directions of W1; 1 for a single one",
        "seen_participation": "of what the data put through it",
        "largest": "first singular value",
        "second": "second singular value",
        "token_energy": "share of W1 along a token's embedding, mean",
        "energy_baseline": "that of a W1 without preference, 1/d",
        "span_energy": "share of W1 within the span of all tokens",
        "span_baseline": "that of a W1 without preference",
        "bos_energy": "share along $",
        "seen_along_bos": "share of the pre-activations' variance along $",
    }
    layer: int
    T: int
    sigma: Float[Tensor, "index"]
    top: Int[Tensor, "index nearest"]
    seen: Float[Tensor, "seen_index"]
    drop: float | None
    participation: float
    seen_participation: float
    token_energy: float
    energy_baseline: float
    span_energy: float
    span_baseline: float
    bos_energy: float | None
    seen_along_bos: float | None

    @property
    def nearest(self) -> list[str]:
        """`top` in letters, such as `B C $`."""
        return [" ".join(letter(token, self.T) for token in tokens) for tokens in self.top.tolist()]

    @property
    def summary(self) -> dict[str, Scalar]:
        return {
            "drop_at_T": self.drop,
            "participation": self.participation,
            "seen_participation": self.seen_participation,
            "largest": float(self.sigma[0]),
            "second": float(self.sigma[1]) if len(self.sigma) > 1 else None,
            "token_energy": self.token_energy,
            "energy_baseline": self.energy_baseline,
            "span_energy": self.span_energy,
            "span_baseline": self.span_baseline,
            "bos_energy": self.bos_energy,
            "seen_along_bos": self.seen_along_bos,
        }

    def rows(self) -> list[dict[str, Scalar]]:
        return [
            {"spectrum": name, "index": i, "sigma": float(value), "nearest_tokens": tokens}
            for name, values, names in (
                ("weights", self.sigma, self.nearest),
                ("seen", self.seen, [""] * len(self.seen)),
            )
            for i, (value, tokens) in enumerate(zip(values, names, strict=True))
        ]


@torch.no_grad()
def spectrum(model: CountingTransformer, *, layer: int = 0, n: int = 512, seed: int = 0) -> Spectrum:
    """The spectrum of block `layer`; the seen one is over `n` sampled sequences."""
    config = model.config
    check_layer(config, layer)
    n = affordable(config, n)
    tokens = model.with_bos(task.sample("paper", n, T=config.T, L=config.L, generator=seed))
    names = (f"blocks.{layer}.hook_resid_pre", f"blocks.{layer}.mlp.hook_pre")
    resid_pre, pre = activations(model, tokens, *names)
    W_in = model.state_dict()[f"blocks.{layer}.mlp.W_in"].double()
    states = _token_states(resid_pre.double(), tokens, config.vocab)
    pre = pre[:, -config.L :].double().flatten(0, 1)
    pre = pre - pre.mean(0)
    check_finite(pre, "pre-activations")

    directions, sigma, _ = torch.linalg.svd(W_in, full_matrices=False)
    seen = torch.linalg.svdvals(pre) / len(pre) ** 0.5
    unit = torch.nn.functional.normalize(states, dim=1)
    top = (unit @ directions).abs().topk(min(NEAREST, len(unit)), dim=0).indices.T
    energies = (unit @ W_in).square().sum(1) / sigma.square().sum()
    span = _orthonormal(unit[: config.T])
    return Spectrum(
        layer=layer,
        T=config.T,
        sigma=sigma,
        top=top,
        seen=seen,
        drop=drop_at(sigma, config.T),
        participation=participation(sigma),
        seen_participation=participation(seen),
        token_energy=float(energies[: config.T].mean()),
        energy_baseline=1 / config.d,
        span_energy=float((span @ W_in).square().sum() / sigma.square().sum()),
        span_baseline=len(span) / config.d,
        bos_energy=float(energies[config.T]) if config.has_bos else None,
        seen_along_bos=_along_bos(pre, states @ W_in, config.softmax) if config.has_bos else None,
    )


def drop_at(sigma: Float[Tensor, "index"], T: int) -> float | None:
    """sigma[T-1] / sigma[T], up to rounding.

    Returns:
        Infinity where sigma[T] is zero. None where there is no index T, or sigma[T-1] is zero.
    """
    rounding = 1e-6 * sigma[0]
    if len(sigma) <= T or sigma[T - 1] <= rounding:
        return None
    return float(sigma[T - 1] / sigma[T]) if sigma[T] > rounding else inf


def participation(sigma: Float[Tensor, "index"]) -> float:
    """The effective number of directions: n for n equal singular values, 0 if all are zero."""
    energy = sigma.square()
    return float(energy.sum() ** 2 / energy.square().sum()) if energy.sum() > 0 else 0.0


def _token_states(
    resid_pre: Float[Tensor, "batch pos d_model"], tokens: Int[Tensor, "batch pos"], vocab: int
) -> Float[Tensor, "vocab d_model"]:
    """The mean residual stream at positions that hold each token; in the first block its embedding."""
    flat = tokens.flatten()
    sums = torch.zeros(vocab, resid_pre.shape[-1], dtype=resid_pre.dtype).index_add_(0, flat, resid_pre.flatten(0, 1))
    return sums / torch.bincount(flat, minlength=vocab).clamp(min=1)[:, None]


def _orthonormal(rows: Float[Tensor, "n d_model"]) -> Float[Tensor, "rank d_model"]:
    """An orthonormal basis of the span of `rows`."""
    _, sigma, basis = torch.linalg.svd(rows, full_matrices=False)
    return basis[sigma > 1e-9 * sigma[0].clamp(min=1e-300)]


def _along_bos(pre: Float[Tensor, "sample d_mlp"], images: Float[Tensor, "vocab d_mlp"], softmax: bool) -> float | None:
    """Share of the variance of centred pre-activations along `$`; None where nothing varies or `$` has no image."""
    direction = images[-1] - images[:-1].mean(0) if softmax else images[-1]
    length, total = direction.norm(), pre.square().sum()
    if length == 0 or total == 0:
        return None
    return float((pre @ (direction / length)).square().sum() / total)
