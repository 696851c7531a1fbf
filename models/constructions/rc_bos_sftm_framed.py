"""RC in `bos+sftm` with d < T, p = 1 (Prop. "Robustness via softmax error-reduction", its d = 4 remark, and ours).

Tokens carry unit vectors v_t of which no two are equal: <v_t, v_s> <= 1 - eps. At inverse temperature kappa a filler s
weighs e^(-kappa (1 - <v_t, v_s>)) <= e^(-kappa eps) against a copy of t, as little as we like. `$` weighs w, so its
share is

    a = w / (w + k + sum of the fillers' weights),

which tells k as soon as the fillers cannot make up for one copy: (L - 1) e^(-kappa eps) < 1 is enough. Here
kappa = (log(L - 1) + 2) / eps, which leaves them at most e^-2.

The paper: a coordinate alpha on tokens and 1/alpha on `$` gives every token the score kappa with `$`, against
kappa (1 + alpha^2) with a copy (alpha = 0.1 / sqrt(kappa), so w = 0.99), and another coordinate, 1 on `$` alone, is
what the hidden unit reads: two dimensions more than v_t has.

    binary  v_t = bin(t) / |bin(t)|, t = 1..T, eps = 1 - sqrt(1 - 1/d'), d' = ceil(log2(T + 1)): d = d' + 2
    arc     v_t = (sqrt(t/T), sqrt(1 - t/T)), eps about 1/(2 T^2): d = 4 for every T, at kappa of order 10 T^2. In
            float64: as built it also counts in float32 at T = 32, but not in another basis, where the
            coordinate 1/alpha, about 900, is rounded into all others

Ours needs one dimension more than v_t: tokens are (v_t, 1), `$` is (0, h), and the unit reads the same last coordinate,
h a + (1 - a) + 1. B = kappa I gives the score kappa h to `$` and 2 kappa to a copy, so h = 2 + log(w) / kappa; w = L
spreads the shares most evenly.

    sign    v_t in {-1, 1}^m / sqrt(m), m = ceil(log2 T), eps = 2/m: d = m + 1
    circle  T points on a circle, eps = 1 - cos(2 pi / T): d = 3 for every T
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from counting_interp.models.constructions.circuit import Circuit, Size

Vectors = Float[Tensor, "token d_model"]


def bits(T: int, first: int, width: int) -> Vectors:
    """Binary digits of first, first + 1, ..., T numbers in all."""
    numbers = torch.arange(first, first + T)
    return ((numbers[:, None] >> torch.arange(width)) & 1).double()


def binary(size: Size) -> Circuit:
    words = bits(size.T, 1, math.ceil(math.log2(size.T + 1)))
    return _two_coordinates(words / words.norm(dim=1, keepdim=True), size)


def arc(size: Size) -> Circuit:
    t = torch.arange(1, size.T + 1, dtype=torch.float64) / size.T
    return _two_coordinates(torch.stack([t.sqrt(), (1 - t).sqrt()], 1), size)


def sign(size: Size) -> Circuit:
    width = sign_width(size.T)
    return _one_coordinate((2 * bits(size.T, 0, width) - 1) / width**0.5, size)


def circle(size: Size) -> Circuit:
    angle = 2 * math.pi * torch.arange(size.T, dtype=torch.float64) / size.T
    return _one_coordinate(torch.stack([angle.cos(), angle.sin()], 1), size)


def sign_width(T: int) -> int:
    return max(1, math.ceil(math.log2(T)))


def _inverse_temperature(vectors: Vectors, L: int) -> float:
    overlaps = (vectors @ vectors.T).fill_diagonal_(-1.0)
    return (math.log(L - 1) + 2) / (1 - float(overlaps.max()))


def _two_coordinates(vectors: Vectors, size: Size) -> Circuit:
    kappa = _inverse_temperature(vectors, size.L)
    alpha = 0.1 / kappa**0.5
    T, width = vectors.shape
    embeddings = torch.zeros(T + 1, width + 2, dtype=torch.float64)
    embeddings[:T, :width], embeddings[:T, width] = vectors, alpha
    embeddings[T, width], embeddings[T, width + 1] = 1 / alpha, 1
    count = torch.zeros(width + 2, 1, dtype=torch.float64)
    count[-1] = 1
    compare = kappa * torch.eye(width + 2, dtype=torch.float64)
    no_bias = torch.zeros(1, dtype=torch.float64)
    return Circuit(embeddings, count, no_bias, compare, {"inverse_temperature": kappa})


def _one_coordinate(vectors: Vectors, size: Size) -> Circuit:
    kappa = _inverse_temperature(vectors, size.L)
    T, width = vectors.shape
    height = 2 + math.log(size.L) / kappa
    embeddings = torch.zeros(T + 1, width + 1, dtype=torch.float64)
    embeddings[:T, :width], embeddings[:T, width] = vectors, 1
    embeddings[T, width] = height
    count = torch.zeros(width + 1, 1, dtype=torch.float64)
    count[-1] = 1 / (height - 1)
    bias = torch.tensor([-2 / (height - 1)], dtype=torch.float64)  # leaves y = a
    return Circuit(
        embeddings, count, bias, kappa * torch.eye(width + 1, dtype=torch.float64), {"inverse_temperature": kappa}
    )
