"""Counters that are neither: planted hybrids of RC and IC, and gated inventories.

Planted hybrids: an RC and an IC circuit in one model, both exact, read out as w * RC + (1 - w) * IC.

The model counts correctly for every w; w says which circuit the answer rests on. When the two see different tokens
(attention compares for t, which occurs i times; the feed-forward layer sees s, which occurs j times), the read-out
is w i + (1 - w)(j + 1), up to a share `leak` of the second term: the truth is known to be mixed.

The two share one attention pattern, and values are the identity, so what makes a pattern compare also reaches the
units of the inventory. Hence attention is nearly constant, and equal tokens get only a little more than others:

`dot`, `bos` (orthonormal tokens, c = e_1 + ... + e_T, `$` = 0): B = a I + b c c^T gives score a [t = s] + b,
b = 1/(2L), a = leak * b.
    RC unit:  (<x', c> - 1 - b L) / a = k
    IC units: (<x', e_j> - 1) / (a + b) = k for j = t, and <= ((L-1)/(2L) - 1) / (a + b) < 0 for the others.

`bos+sftm` (`$` has a coordinate of its own, d = T + 1): weights before normalisation are 1 + leak for equal tokens,
1 for others, L for `$`, so D(k) = 2 L + leak * k is their sum.
    RC unit:  the share L / D(k) of `$`, mapped by a straight line that gives 1 at k = 1 and L at k = L
    IC units: the share (1 + leak) k / D(k), times D(L // 2) / (1 + leak); the others are silenced by the bias.

A gated inventory in `dot` and `bos`, d < T and p = T: Prop. "Robustness via bounded mutual coherence".

Tokens are a frame, compared by B = I / (4L), and unit j reads e_j. The overlap of t with a filler s enters twice, when
t looks at s and when unit t reads what it has seen, so it disturbs by its square:

    z_t = 1 + (k + sum of <e_s, e_t>^2 over the fillers s) / (4L) + b.

The identity on the residual path opens the gate of unit t alone: another unit gets at most
<e_j, e_t> + max |overlap| / 4. (The paper has B = I / L, where this needs overlaps below 1/2.) `$` = 0 in `bos`.
Attention compares here, and yet each token's count is read by its own unit: with another token on the
residual path, that unit's sum is gone. The paper lists it under IC for its p = T units. The verdict calls it mixed
(gated), since without attention's comparison nothing is left of the count.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from counting_interp.models.constructions.circuit import Circuit, Size
from counting_interp.models.constructions.frames import find_frame


def hybrid_dot(size: Size, weight: float = 0.5, leak: float = 0.02) -> Circuit:
    return _linear(size, weight, leak, bos=False)


def hybrid_bos(size: Size, weight: float = 0.5, leak: float = 0.02) -> Circuit:
    return _linear(size, weight, leak, bos=True)


def hybrid_bos_sftm(size: Size, weight: float = 0.5, leak: float = 0.05) -> Circuit:
    _check(weight, leak)
    T, L = size.T, size.L
    tokens = torch.eye(T + 1, dtype=torch.float64)  # `$` is the last one
    compare = torch.zeros(T + 1, T + 1, dtype=torch.float64)
    compare[:T, :T] = math.log1p(leak) * torch.eye(T, dtype=torch.float64)
    compare[:T, T] = math.log(L)

    def total(k: int) -> float:
        return 2 * L + leak * k

    steepness = (L - 1) / (L / total(1) - L / total(L))
    rc_in, rc_bias = -steepness * tokens[T], 1 + steepness * L / total(1)
    gain = total(L // 2) / (1 + leak)
    W_in, b_in = _both(weight, rc_in, rc_bias, gain * tokens[:, :T], -gain)
    return Circuit(tokens, W_in, b_in, compare, _facts(weight, leak))


def _linear(size: Size, weight: float, leak: float, bos: bool) -> Circuit:
    _check(weight, leak)
    T, L = size.T, size.L
    tokens = torch.eye(T, dtype=torch.float64)
    common = tokens.sum(0)
    b = 1 / (2 * L)
    a = leak * b
    W_in, b_in = _both(weight, common / a, -(1 + b * L) / a, tokens / (a + b), -1 / (a + b))
    embeddings = torch.cat([tokens, torch.zeros(1, T, dtype=torch.float64)]) if bos else tokens
    return Circuit(embeddings, W_in, b_in, a * tokens + b * torch.outer(common, common), _facts(weight, leak))


def _both(weight: float, rc_in: Tensor, rc_bias: float, ic_in: Tensor, ic_bias: float) -> tuple[Tensor, Tensor]:
    """One RC unit times w, then T IC units times 1 - w (a ReLU passes positive factors through)."""
    W_in = torch.cat([weight * rc_in[:, None], (1 - weight) * ic_in], 1)
    b_in = torch.tensor([weight * rc_bias] + [(1 - weight) * ic_bias] * ic_in.shape[1], dtype=torch.float64)
    return W_in, b_in


def _check(weight: float, leak: float) -> None:
    if not 0 <= weight <= 1:
        raise ValueError(f"weight, the share of RC in the answer, must lie between 0 and 1, got {weight}")
    if not 0.001 <= leak <= 0.2:
        raise ValueError(f"leak must lie between 0.001 (precision) and 0.2 (purity of the circuits), got {leak}")


def _facts(weight: float, leak: float) -> dict[str, object]:
    facts: dict[str, object] = {"weight": weight, "leak": leak}
    if weight in (0, 1):
        facts |= {"label": "RC" if weight else "IC", "case": "relation" if weight else "inventory"}
    return facts


def needed_coherence(L: int) -> float:
    return 1 / math.sqrt(L - 1) if L > 2 else 0.5


def needed_squares(L: int) -> float:
    return 1 / (2 * L - 3) if L > 2 else 0.5


def gated(size: Size, measure: str, bos: bool) -> Circuit:
    """Tokens of a frame, in `dot` or `bos`; `measure` is `coherence`, or `squares` (ours), by which squared overlaps
    need not be small, only nearly equal."""
    need = needed_coherence(size.L) if measure == "coherence" else needed_squares(size.L)
    frame = find_frame(size.T, min(size.d, size.T), measure, need, size.seed)
    tokens = frame.vectors
    return Circuit(
        embeddings=torch.nn.functional.pad(tokens, (0, 0, 0, 1)) if bos else tokens,
        compare=torch.eye(tokens.shape[1], dtype=torch.float64) / (4 * size.L),
        W_in=tokens.T,
        facts={measure: frame.value},
    )
