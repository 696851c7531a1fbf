"""Counters with one hidden unit per token (p >= T): inventories (IC), gated inventories, and hybrids of IC and RC.

In an inventory attention does not compare, or only adds up. Unit j knows token j: W_in = (e_1 ... e_T), b_in = -1.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations, islice

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from counting_interp.models.constructions.circuit import Circuit, Size, eye, real
from counting_interp.models.constructions.frames import find_frame

Vectors = Float[Tensor, "token d_model"]


def lin(size: Size) -> Circuit:
    """`lin` and `lin+sftm`: the paper's Prop. "IC with memorization in the feed-forward layer".

    The mixing matrix is 1/L everywhere (with softmax: equal scores), so every position gets the same average of the
    sequence, and the residual adds the token itself. With orthonormal embeddings

        z_t = 1 + k/L - 1 = k/L      for the token t at this position,
        z_j = n_j/L - 1 <= 0         for every other token, which the ReLU silences.
    """
    return _orthonormal(size, None)


def constant(size: Size, bos: bool) -> Circuit:
    """`dot` and `bos`, where attention could compare, built not to (ours): a verdict cannot follow the variant's name.

    The form B = c c^T / L compares only the coordinate that all tokens share, c = e_1 + ... + e_T. Every token scores
    1/L with every token: the constant mixing of `lin`. `$` = 0.
    """
    return _orthonormal(size, torch.full((size.T, size.T), 1 / size.L, dtype=torch.float64), bos)


def bos_sftm(size: Size) -> Circuit:
    """`bos+sftm` without comparison (ours), B = 0. All positions, also `$`, get the share 1/(L + 1). `$` = 0."""
    return _orthonormal(size, torch.zeros(size.T, size.T, dtype=torch.float64), bos=True)


def dot_sftm(size: Size) -> Circuit:
    """`dot+sftm`: Prop. "IC for dot+sftm".

    With orthonormal tokens a position that holds t scores 1 with each copy of t and 0 with the rest. The shares sum to
    one, so no direction common to all tokens can carry the count. Unit j reads e_j:

        z_t = k e / (k e + L - k)                      for the token t at this position: its copies' share,
        z_j = n_j / (k e + L - k) - 1 < 0              for every other token.

    The shares are not linear in k; the read-out puts its boundaries between their L values.
    """
    return _orthonormal(size, eye(size.T))


def _orthonormal(size: Size, compare: Tensor | None, bos: bool = False) -> Circuit:
    tokens = eye(size.T)
    embeddings = pad(tokens, (0, 0, 0, 1)) if bos else tokens
    return Circuit(embeddings, tokens, torch.full((size.T,), -1.0, dtype=torch.float64), compare)


def needed_overlap(L: int) -> float:
    """The measure of a frame below which neighbouring counts stay apart and other units stay silent."""
    return min(1 / (2 * L - 3), 1 / L)


def framed(size: Size, measure: str) -> Circuit:
    """`lin` and `lin+sftm` with d < T: Prop. "Robustness via bounded mutual coherence".

    The tokens are a frame: unit j reads e_j, and at a position that holds t

        z_t = 1 + (k + sum of <e_s, e_t> over the L - k fillers s) / L + b,

    so fillers disturb the count by their overlaps. `frames` says when neighbouring counts stay apart. The other units
    stay silent if the overlaps' measure is below 1/L too: from z_j <= <e_j, e_t> + (L - 1 + <e_j, e_t>)/L + b.

    Args:
        measure: `coherence`, or `band` (ours), for which overlaps need not be small, only nearly equal.
    """
    frame = find_frame(size.T, min(size.d, size.T), measure, needed_overlap(size.L), size.seed)
    return Circuit(frame.vectors, W_in=frame.vectors.T, facts={measure: frame.value})


# `dot+sftm` with d < T.
#
# The paper (Prop. "Robustness via softmax error-reduction", second half) says that the inverse temperature kappa is
# chosen as for `bos+sftm`: high. That does not work. The shares sum to one, so a higher kappa brings the share of the
# copies of t closer to 1, whatever their number. With u_s = 1 - <e_t, e_s>, B = kappa I and unit t reading e_t,
#
#     z_t = 2 - (sum over fillers of u_s e^(-kappa u_s)) / (k + sum over fillers of e^(-kappa u_s)) + b.
#
# A filler pulls the mean away from e_t by u_s, and has the weight e^(-kappa u_s). The product is flat where
# kappa u_s = 1: there a kappa of order one makes different fillers nearly equal, and overlaps may differ much more
# than in `lin` (kappa = 0). With all u in c (1 +- mu), counts up to L = 5, 10, 15, 30 stay apart for mu below 0.69,
# 0.44, 0.30, 0.12, against 1/(2L-3) = 0.14, 0.06, 0.04, 0.02. So O(log T) dimensions suffice, with a factor that grows
# with L.


def word_length(T: int) -> int:
    """The smallest d with d (d - 1) / 2 >= T words of two ones."""
    return next(d for d in range(2, T + 2) if d * (d - 1) // 2 >= T)


def dot_sftm_binary(size: Size) -> Circuit:
    """e_t = the binary words with two ones, d (d-1)/2 >= T: overlaps 1/2 and 0, mu = 1/3."""
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
    """e_t = a frame with a narrow band of overlaps."""
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
        compare=kappa * eye(tokens.shape[1]),
        W_in=tokens.T,
        facts={"inverse_temperature": kappa, **facts},
    )


def _best_inverse_temperature(least: float, most: float, L: int) -> tuple[float, float]:
    """The inverse temperature with the widest gap for all u between `least` and `most`, and that gap."""
    middle = (least + most) / 2
    pulls = torch.linspace(least, most, 101, dtype=torch.float64)
    kappas = torch.linspace(0.2, 4, 39, dtype=torch.float64) / middle
    for _ in range(3):  # finer and finer around the best
        gaps = _gaps(kappas, pulls, L)
        best = int(gaps.argmax())
        step = float(kappas[1] - kappas[0])
        best_kappa, widest = float(kappas[best]), float(gaps[best])
        kappas = kappas[best] + torch.linspace(-step, step, 39, dtype=torch.float64)
    return best_kappa, widest


def _gaps(kappas: Float[Tensor, "kappa"], pulls: Float[Tensor, "filler"], L: int) -> Float[Tensor, "kappa"]:
    """The narrower of two gaps: between neighbouring counts, and between a unit's token and the worst case for other
    units, a single t among L - 1 copies of the unit's token."""
    k = torch.arange(1, L + 1, dtype=torch.float64)[:, None]
    weight = (-kappas[:, None, None] * pulls).exp()
    pull = (L - k) * pulls * weight / (k + (L - k) * weight)  # [kappa, count, filler], falls with the count
    between_counts = (pull.amin(2)[:, :-1] - pull.amax(2)[:, 1:]).amin(1)
    silence = (2 * pulls - pull[:, 0]).amin(1) - pull[:, 0].amax(1)
    return torch.minimum(between_counts, silence)


def needed_coherence(L: int) -> float:
    return 1 / math.sqrt(L - 1) if L > 2 else 0.5


def needed_squares(L: int) -> float:
    return 1 / (2 * L - 3) if L > 2 else 0.5


def gated(size: Size, measure: str, bos: bool) -> Circuit:
    """A gated inventory in `dot` and `bos`, d < T and p = T: Prop. "Robustness via bounded mutual coherence".

    Tokens are a frame, compared by B = I / (4L), and unit j reads e_j. The overlap of t with a filler s enters twice,
    when t attends to s and when unit t reads the result, so it disturbs by its square:

        z_t = 1 + (k + sum of <e_s, e_t>^2 over the fillers s) / (4L) + b.

    The residual opens the gate of unit t alone: another unit gets at most <e_j, e_t> + max |overlap| / 4. (The paper
    has B = I / L, where this needs overlaps below 1/2.) `$` = 0 in `bos`.

    Attention compares here, yet each token's count is read by its own unit. With another token on the residual path,
    that unit is closed. The paper lists it under IC for its p = T units. The verdict calls it mixed (gated), since
    nothing is left of the count without attention's comparison.

    Args:
        measure: `coherence`, or `squares` (ours), for which squared overlaps need not be small, only nearly equal.
    """
    need = needed_coherence(size.L) if measure == "coherence" else needed_squares(size.L)
    frame = find_frame(size.T, min(size.d, size.T), measure, need, size.seed)
    tokens = frame.vectors
    return Circuit(
        embeddings=pad(tokens, (0, 0, 0, 1)) if bos else tokens,
        compare=eye(tokens.shape[1]) / (4 * size.L),
        W_in=tokens.T,
        facts={measure: frame.value},
    )


# Planted hybrids: an RC and an IC circuit in one model, both exact, read out as w * RC + (1 - w) * IC.
#
# The model counts correctly for every w, and w says which circuit the answer rests on. If attention compares for t,
# which occurs i times, and the residual path holds s, which occurs j times, the read-out is w i + (1 - w)(j + 1), up to
# a share `leak` of the second term: the truth is known to be mixed.
#
# The two share one attention pattern, and values are the identity, so what makes a pattern compare also reaches the
# units of the inventory. Hence attention is nearly constant, and equal tokens get only a little more than others.


def hybrid(size: Size, bos: bool, weight: float = 0.5, leak: float = 0.02) -> Circuit:
    """`dot` and `bos` (orthonormal tokens, c = e_1 + ... + e_T, `$` = 0).

    B = a I + b c c^T gives the score a [t = s] + b, with b = 1/(2L) and a = leak * b.

        RC unit:  (<x', c> - 1 - b L) / a = k
        IC units: (<x', e_j> - 1) / (a + b) = k for j = t, and <= ((L-1)/(2L) - 1) / (a + b) < 0 for the others.
    """
    facts = _facts(weight, leak)
    tokens = eye(size.T)
    common = tokens.sum(0)
    b = 1 / (2 * size.L)
    a = leak * b
    W_in, b_in = _both(weight, common / a, -(1 + b * size.L) / a, tokens / (a + b), -1 / (a + b))
    embeddings = pad(tokens, (0, 0, 0, 1)) if bos else tokens
    return Circuit(embeddings, W_in, b_in, a * tokens + b * torch.outer(common, common), facts)


def hybrid_bos_sftm(size: Size, weight: float = 0.5, leak: float = 0.05) -> Circuit:
    """`bos+sftm` (`$` has a coordinate of its own, d = T + 1).

    Weights before normalisation are 1 + leak for equal tokens, 1 for others and L for `$`, with the sum
    D(k) = 2 L + leak * k.

        RC unit:  the share L / D(k) of `$`, mapped by a straight line that gives 1 at k = 1 and L at k = L
        IC units: the share (1 + leak) k / D(k), times D(L // 2) / (1 + leak); the bias silences the others.
    """
    facts = _facts(weight, leak)
    T, L = size.T, size.L
    tokens = eye(T + 1)  # `$` is the last one
    compare = pad(math.log1p(leak) * eye(T), (0, 1, 0, 1))
    compare[:T, T] = math.log(L)

    def total(k: int) -> float:
        return 2 * L + leak * k

    steepness = (L - 1) / (L / total(1) - L / total(L))
    gain = total(L // 2) / (1 + leak)
    W_in, b_in = _both(weight, -steepness * tokens[T], 1 + steepness * L / total(1), gain * tokens[:, :T], -gain)
    return Circuit(tokens, W_in, b_in, compare, facts)


def _both(weight: float, rc_in: Tensor, rc_bias: float, ic_in: Tensor, ic_bias: float) -> tuple[Tensor, Tensor]:
    """One RC unit times w, then T IC units times 1 - w (a ReLU passes positive factors through)."""
    W_in = torch.cat([weight * rc_in[:, None], (1 - weight) * ic_in], 1)
    return W_in, real([weight * rc_bias] + [(1 - weight) * ic_bias] * ic_in.shape[1])


def _facts(weight: float, leak: float) -> dict[str, object]:
    """What the checkpoint says about a hybrid; a ValueError for options out of range."""
    if not 0 <= weight <= 1:
        raise ValueError(f"weight, the share of RC in the answer, must lie between 0 and 1, got {weight}")
    if not 0.001 <= leak <= 0.2:
        raise ValueError(f"leak must lie between 0.001 (precision) and 0.2 (purity of the circuits), got {leak}")
    pure = {"label": "RC" if weight else "IC", "case": "relation" if weight else "inventory"}
    return {"weight": weight, "leak": leak, **(pure if weight in (0, 1) else {})}
