"""Relation-based counters (RC): attention compares, one hidden unit reads the count. p = 1.

With d >= T the tokens are orthonormal. With d < T they are a frame (`framed`), or vectors that a sharp softmax tells
apart (`bos_sftm_*`).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from counting_interp.models.constructions.circuit import Circuit, Size, eye, real
from counting_interp.models.constructions.frames import find_frame

Vectors = Float[Tensor, "token d_model"]


def tagged(size: Size, bos: bool) -> Circuit:
    """`dot`: Prop. "RC with tagged embeddings"; `bos`: the alternative proof of "RC with BOS token".

    The tag c = u_1 + ... + u_T, a sum of orthonormal vectors, is added to each of them: e_t = u_t + c. Then
    <e_t, e_s> = T + 2 + [t = s] and <e_t, c> = T + 1. With these overlaps as mixing weights, the hidden unit
    W_in = c / (T + 1) adds up the weights, the residual counting as one more:

        <x', c> / (T + 1) = 1 + k (T + 3) + (L - k)(T + 2) = k + 1 + L (T + 2),

    and the bias leaves y = k. In `bos` models `$` = 0 gets no weight and adds nothing.
    """
    T, L = size.T, size.L
    tokens = eye(T) + 1
    return Circuit(
        embeddings=pad(tokens, (0, 0, 0, 1)) if bos else tokens,
        compare=eye(T),
        W_in=torch.ones(T, 1, dtype=torch.float64) / (T + 1),
        b_in=real([-1.0 - L * (T + 2)]),
    )


def bos(size: Size) -> Circuit:
    """`bos`: Prop. "RC with BOS token".

    Tokens are orthonormal: a position that holds t gives weight 1 to each copy of t and 0 to every other token. One
    hidden unit reads the direction that all tokens share, e_1 + ... + e_T, and so adds up the weights: y = k. Each
    token gives `$` = e_1 + ... + e_T weight 1. It adds T, the residual adds 1, and the bias subtracts both.
    """
    return _shared_direction(size, -1.0 - size.T)


def bos_share(size: Size) -> Circuit:
    """`bos+sftm`: Prop. "RC with BOS token". The share of attention on `$` tells the count.

    Tokens are orthonormal, and `$` = e_1 + ... + e_T. A position that holds t scores 1 with `$` and with each copy of
    t, and 0 with the rest. After the softmax `$` has the share a = e / ((k + 1) e + L - k), which falls with k. The
    hidden unit reads `$`, and every token adds its share times 1, so

        y = T a + (1 - a) + 1 + b_in = (T - 1) a + 1,      b_in = -1.
    """
    return _shared_direction(size, -1.0)


def _shared_direction(size: Size, bias: float) -> Circuit:
    shared = torch.ones(1, size.T, dtype=torch.float64)
    return Circuit(embeddings=torch.cat([eye(size.T), shared]), compare=eye(size.T), W_in=shared.T, b_in=real([bias]))


def needed_overlap(L: int) -> float:
    """The measure of a frame below which neighbouring counts stay apart."""
    return 1 / (2 * L - 3)


def framed(size: Size, measure: str, bos: bool) -> Circuit:
    """`dot` and `bos` with d <= T: Prop. "Robustness via bounded mutual coherence".

    Tokens are a frame v_1 ... v_T in R^(d-1) with a tag: e_t = (v_t, 1). The form B compares the first d - 1
    coordinates and leaves the tag out (the paper compares all of e_t and makes the tag small instead). The hidden unit
    reads the tag, that is, it adds up the weights:

        y = 1 + k + sum of <v_s, v_t> over the fillers s + b.

    `frames` says when neighbouring counts stay apart. b makes the smallest value 1. `$` = 0 in `bos`.

    Args:
        measure: `coherence`, or `band` (ours), for which overlaps need not be small, only nearly equal.
    """
    frame = find_frame(size.T, min(size.d - 1, size.T), measure, needed_overlap(size.L), size.seed)
    tokens = pad(frame.vectors, (0, 1), value=1.0)
    tag = eye(tokens.shape[1])[-1]
    smallest = 2 + (size.L - 1) * float((frame.vectors @ frame.vectors.T).min())
    return Circuit(
        embeddings=pad(tokens, (0, 0, 0, 1)) if bos else tokens,
        compare=torch.diag(1 - tag),
        W_in=tag[:, None],
        b_in=real([1 - smallest]),
        facts={measure: frame.value},
    )


# `bos+sftm` with d < T: Prop. "Robustness via softmax error-reduction", its d = 4 remark, and ours.
#
# Tokens carry unit vectors v_t, no two of them equal: <v_t, v_s> <= 1 - eps. At inverse temperature kappa a filler s
# weighs e^(-kappa (1 - <v_t, v_s>)) <= e^(-kappa eps) against a copy of t. `$` weighs w, so its share is
#
#     a = w / (w + k + sum of the fillers' weights),
#
# which tells k if the fillers cannot make up for one copy: (L - 1) e^(-kappa eps) < 1 is enough. Here
# kappa = (log(L - 1) + 2) / eps, which leaves them at most e^-2.


def bos_sftm_binary(size: Size) -> Circuit:
    """v_t = bin(t) / |bin(t)|, t = 1..T, eps = 1 - sqrt(1 - 1/d'), d' = ceil(log2(T + 1)): d = d' + 2."""
    words = bits(size.T, 1, math.ceil(math.log2(size.T + 1)))
    return _two_coordinates(words / words.norm(dim=1, keepdim=True), size)


def bos_sftm_arc(size: Size) -> Circuit:
    """v_t = (sqrt(t/T), sqrt(1 - t/T)), eps about 1/(2 T^2): d = 4 for every T, at kappa of order 10 T^2.

    It needs float64. As built it also counts in float32 at T = 32, but not in another basis, where the coordinate
    1/alpha, about 900, is rounded into all others.
    """
    t = torch.arange(1, size.T + 1, dtype=torch.float64) / size.T
    return _two_coordinates(torch.stack([t.sqrt(), (1 - t).sqrt()], 1), size)


def bos_sftm_sign(size: Size) -> Circuit:
    """v_t in {-1, 1}^m / sqrt(m), m = ceil(log2 T), eps = 2/m: d = m + 1."""
    width = sign_width(size.T)
    return _one_coordinate((2 * bits(size.T, 0, width) - 1) / width**0.5, size)


def bos_sftm_circle(size: Size) -> Circuit:
    """v_t = T points on a circle, eps = 1 - cos(2 pi / T): d = 3 for every T."""
    angle = 2 * math.pi * torch.arange(size.T, dtype=torch.float64) / size.T
    return _one_coordinate(torch.stack([angle.cos(), angle.sin()], 1), size)


def bits(T: int, first: int, width: int) -> Vectors:
    """Binary digits of T numbers: first, first + 1, ..."""
    numbers = torch.arange(first, first + T)
    return ((numbers[:, None] >> torch.arange(width)) & 1).double()


def sign_width(T: int) -> int:
    return max(1, math.ceil(math.log2(T)))


def _inverse_temperature(vectors: Vectors, L: int) -> float:
    overlaps = (vectors @ vectors.T).fill_diagonal_(-1.0)
    return (math.log(L - 1) + 2) / (1 - float(overlaps.max()))


def _two_coordinates(vectors: Vectors, size: Size) -> Circuit:
    """The paper's choice: one more coordinate to score `$`, and one to read it.

    The first is alpha on tokens and 1/alpha on `$`. So every token scores kappa with `$`, and kappa (1 + alpha^2) with
    a copy. With alpha = 0.1 / sqrt(kappa), w = 0.99. The second, 1 on `$` alone, is what the hidden unit reads.
    """
    kappa = _inverse_temperature(vectors, size.L)
    alpha = 0.1 / kappa**0.5
    T, width = vectors.shape
    embeddings = pad(vectors, (0, 2, 0, 1))
    embeddings[:T, width] = alpha
    embeddings[T, width:] = real([1 / alpha, 1.0])
    read = eye(width + 2)[:, -1:]
    return Circuit(embeddings, read, real([0.0]), kappa * eye(width + 2), {"inverse_temperature": kappa})


def _one_coordinate(vectors: Vectors, size: Size) -> Circuit:
    """Ours: one coordinate scores `$` and reads it.

    Tokens are (v_t, 1), `$` is (0, h), and the unit reads the last coordinate, h a + (1 - a) + 1. With B = kappa I, `$`
    scores kappa h and a copy 2 kappa, so h = 2 + log(w) / kappa. w = L spreads the shares most evenly.
    """
    kappa = _inverse_temperature(vectors, size.L)
    T, width = vectors.shape
    height = 2 + math.log(size.L) / kappa
    embeddings = pad(vectors, (0, 1, 0, 1), value=0.0)
    embeddings[:T, width], embeddings[T, width] = 1, height
    read = eye(width + 1)[:, -1:] / (height - 1)
    bias = real([-2 / (height - 1)])  # leaves y = a
    return Circuit(embeddings, read, bias, kappa * eye(width + 1), {"inverse_temperature": kappa})
