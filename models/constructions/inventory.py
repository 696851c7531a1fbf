"""Inventory-based counters (IC): attention does not compare, or only adds up; one hidden unit per token. p = T.

`lin` and `lin+sftm`: the paper's Prop. "IC with memorization in the feed-forward layer".

The mixing matrix is 1/L everywhere (through a softmax: equal scores), so every position sees the same average of the
sequence, and the residual adds the token itself. Hidden unit j knows token j, W_in = (e_1 ... e_T), b_in = -1. With
orthonormal embeddings

    z_t = 1 + k/L - 1 = k/L      for the token t at this position,
    z_j = n_j/L - 1 <= 0         for every other token, which the ReLU silences.

`dot`, `bos` and `bos+sftm`, where attention could compare, built not to (ours).

Nothing in the paper forbids these variants to count by inventory; these models do, so that no verdict can follow the
architecture's name.

`dot`, `bos`: orthonormal tokens, and the form B = c c^T / L compares only what all tokens have in common, their shared
coordinate c = e_1 + ... + e_T. Every token scores 1/L with every token: the constant mixing of `lin`. `$` = 0.

`bos+sftm`: no comparison at all, B = 0. Every position, `$` too, gets the share 1/(L + 1). `$` = 0 adds nothing.

The feed-forward layer is that of `lin`: unit j reads e_j with bias -1.

`dot+sftm`: Prop. "IC for dot+sftm".

With orthonormal tokens a position that holds t scores 1 with each copy of t and 0 with the rest. The shares sum to
one, so no direction common to all tokens can carry the count. Unit j reads e_j with bias -1:

    z_t = k e / (k e + L - k)                      for the token t at this position: its copies' share,
    z_j = n_j / (k e + L - k) - 1 < 0              for every other token.

The shares are not linear in k; the read-out takes its boundaries between the L values they have.

`lin` and `lin+sftm` with d < T: Prop. "Robustness via bounded mutual coherence".

As with orthogonal tokens, but the tokens are a frame: unit j reads e_j, and at a position that holds t

    z_t = 1 + (k + sum of <e_s, e_t> over the L - k fillers s) / L + b,

so fillers disturb the count by their overlaps. `frames` says when neighbouring counts stay apart. The other units stay
silent if the overlaps' measure is below 1/L as well: from z_j <= <e_j, e_t> + (L - 1 + <e_j, e_t>)/L + b.

`dot+sftm` with d < T.

The paper (Prop. "Robustness via softmax error-reduction", second half) says that the inverse temperature kappa is
chosen as for `bos+sftm`: high. That does not work. The shares sum to one, so the higher kappa, the closer the share of
the copies of t to 1, whatever their number. With u_s = 1 - <e_t, e_s>, B = kappa I and unit t reading e_t,

    z_t = 2 - (sum over fillers of u_s e^(-kappa u_s)) / (k + sum over fillers of e^(-kappa u_s)) + b.

A filler pulls the mean away from e_t by u_s, and has e^(-kappa u_s) to do it with. The product is flat where
kappa u_s = 1: there a kappa of order one makes different fillers nearly equal, and overlaps may differ much more
than in `lin` (kappa = 0). With all u in c (1 +- mu), counts up to L = 5, 10, 15, 30 stay apart for mu below 0.69, 0.44,
0.30, 0.12, against 1/(2L-3) = 0.14, 0.06, 0.04, 0.02: so O(log T) dimensions do, with a factor that grows with L.

    binary   e_t = the binary words with two ones, d (d-1)/2 >= T: overlaps 1/2 and 0, mu = 1/3
    compact  a frame with a narrow band of overlaps
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, islice

import torch
from jaxtyping import Float
from torch import Tensor

from counting_interp.models.constructions.circuit import Circuit, Size
from counting_interp.models.constructions.frames import find_frame

Vectors = Float[Tensor, "token d_model"]


def lin(size: Size) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    return Circuit(embeddings=tokens, W_in=tokens, b_in=torch.full((size.T,), -1.0, dtype=torch.float64))


def _inventory(size: Size, compare: torch.Tensor, bos: bool) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    nothing = torch.zeros(1, size.T, dtype=torch.float64)
    return Circuit(
        embeddings=torch.cat([tokens, nothing]) if bos else tokens,
        compare=compare,
        W_in=tokens,
        b_in=torch.full((size.T,), -1.0, dtype=torch.float64),
    )


def dot(size: Size) -> Circuit:
    return _inventory(size, torch.full((size.T, size.T), 1 / size.L, dtype=torch.float64), bos=False)


def bos(size: Size) -> Circuit:
    return _inventory(size, torch.full((size.T, size.T), 1 / size.L, dtype=torch.float64), bos=True)


def bos_sftm(size: Size) -> Circuit:
    return _inventory(size, torch.zeros(size.T, size.T, dtype=torch.float64), bos=True)


def dot_sftm(size: Size) -> Circuit:
    tokens = torch.eye(size.T, dtype=torch.float64)
    return Circuit(
        embeddings=tokens,
        compare=tokens.clone(),
        W_in=tokens.clone(),
        b_in=torch.full((size.T,), -1.0, dtype=torch.float64),
    )


def needed_overlap(L: int) -> float:
    """The measure of a frame below which neighbouring counts stay apart and other units stay silent."""
    return min(1 / (2 * L - 3), 1 / L)


def framed(size: Size, measure: str) -> Circuit:
    """Tokens of a frame, in `lin` and `lin+sftm`; `measure` is `coherence`, or `band` (ours), by which overlaps need
    not be small, only nearly equal."""
    frame = find_frame(size.T, min(size.d, size.T), measure, needed_overlap(size.L), size.seed)
    return Circuit(frame.vectors, W_in=frame.vectors.T, facts={measure: frame.value})


def word_length(T: int) -> int:
    """The smallest d with d (d - 1) / 2 >= T words of two ones."""
    return next(d for d in range(2, T + 2) if d * (d - 1) // 2 >= T)


def dot_sftm_binary(size: Size) -> Circuit:
    length = word_length(size.T)
    if needed_band(size.L) <= 1 / 3:
        raise ValueError(
            f"binary words with two ones have overlaps 0 and 1/2, too different for L={size.L}: "
            "counts stay apart for L <= 13; use ic-dot+sftm-compact"
        )
    words = torch.zeros(size.T, length, dtype=torch.float64)
    for token, ones in enumerate(islice(combinations(range(length), 2), size.T)):
        words[token, list(ones)] = 0.5**0.5
    return _shares(words, size.L, {})


def dot_sftm_framed(size: Size, measure: str = "band") -> Circuit:
    frame = find_frame(size.T, min(size.d, size.T), measure, needed_band(size.L), size.seed)
    return _shares(frame.vectors, size.L, {measure: frame.value})


@lru_cache(maxsize=256)
def needed_band(L: int) -> float:
    """The largest mu for which some inverse temperature keeps the counts apart, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        mu = (low + high) / 2
        low, high = (mu, high) if _best_inverse_temperature(1 - mu, 1 + mu, L)[1] > 0 else (low, mu)
    return low


def _shares(tokens: Vectors, L: int, facts: dict[str, float]) -> Circuit:
    pulls = 1 - (tokens @ tokens.T)[~torch.eye(len(tokens), dtype=torch.bool)]
    kappa, _ = _best_inverse_temperature(float(pulls.min()), float(pulls.max()), L)
    return Circuit(
        embeddings=tokens,
        compare=kappa * torch.eye(tokens.shape[1], dtype=torch.float64),
        W_in=tokens.T,
        facts={"inverse_temperature": kappa, **facts},
    )


def _best_inverse_temperature(least: float, most: float, L: int) -> tuple[float, float]:
    """The inverse temperature with the widest gap for all u between `least` and `most`, and that gap."""
    middle = (least + most) / 2
    pulls = torch.linspace(least, most, 101, dtype=torch.float64)
    kappas = torch.linspace(0.2, 4, 39, dtype=torch.float64) / middle
    for _ in range(3):  # ever finer around the best
        gaps = _gaps(kappas, pulls, L)
        best = int(gaps.argmax())
        step = float(kappas[1] - kappas[0])
        kappas_around = torch.linspace(-step, step, 39, dtype=torch.float64)
        best_kappa, widest = float(kappas[best]), float(gaps[best])
        kappas = kappas[best] + kappas_around
    return best_kappa, widest


def _gaps(kappas: Float[Tensor, "kappa"], pulls: Float[Tensor, "filler"], L: int) -> Float[Tensor, "kappa"]:
    """The gap between neighbouring counts; or, if that is narrower, the gap between a unit's own tokens and the worst
    for others: a single t among L - 1 copies of the unit's token."""
    k = torch.arange(1, L + 1, dtype=torch.float64)[:, None]
    weight = (-kappas[:, None, None] * pulls).exp()
    pull = (L - k) * pulls * weight / (k + (L - k) * weight)  # [kappa, count, filler], falls with the count
    between_counts = (pull.amin(2)[:, :-1] - pull.amax(2)[:, 1:]).amin(1)
    silence = (2 * pulls - pull[:, 0]).amin(1) - pull[:, 0].amax(1)
    return torch.minimum(between_counts, silence)
