"""The two interventions behind the verdict, made of hook points and nothing else.

At a place that holds t, an attention block adds two things to the stream: what the place gives itself (its residual,
and its own value through every head), and what its heads gather from the other places. The interventions change
one of them, with activations from a *donor* run, in which some places hold other tokens:

- **Swap the self path**: the place's residual and its own value become those of a run in which the place holds s. The
  pattern stays. Attention has compared for t, the feed-forward layer is told s.
- **Flatten the comparison**: the place asks as a stranger. Its row of attention scores becomes that of a run in which
  the place holds u, a token that does not occur, so that attention finds nothing equal; the weight on the place itself
  stays. Residual and values stay: what is gathered still holds every copy of t.

Why a stranger's whole row, and not a stranger's score for the keys that hold t? Trained models without softmax let
scores and values compensate each other token by token: S_tu F_u is about the same for every u, S_tu is not. One entry
of a row put in place of another is then wrong by the ratio of two values, and leaves up to 0.6 of the count (1.0 in a
model with one hidden unit) where attention does all the comparing. A row by itself fits the values it meets.

They name hook points only: `hook_resid_pre`, `attn.hook_v`, `attn.hook_attn_scores`, `attn.hook_pattern`,
`attn.hook_z`, `hook_resid_mid`, with any number of heads, positions, output matrices, masks or norms in between. For
the paper's blocks, where values are the identity, the first is x' -> x' + (1 + A_ll)(x_s - x_t); the second puts S_u in
place of S_t but for the diagonal, and for a constant mixer it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from counting_interp.models.counter import Counter

SCORES = ("attn.hook_attn_scores", "attn.hook_pattern")
Hooks = list[tuple[str | Callable[..., Any], Callable[..., Any]]]  # as TransformerLens types them


@dataclass(frozen=True, eq=False)
class Donor:
    """What one block held in a run on other sequences.

    Attributes:
        front: places, such as `$`, that come before the tokens.
        normalised: whether scores go through a softmax, so that only their differences matter.
    """

    layer: int
    front: int
    normalised: bool
    resid_pre: Float[Tensor, "row inner_pos d_model"]
    value: Float[Tensor, "row inner_pos head d_head"]
    scores: Float[Tensor, "row head query key"]

    @property
    def block(self) -> str:
        return f"blocks.{self.layer}."


@torch.no_grad()
def record_donor(model: Counter, tokens: Int[Tensor, "row pos"], *, layer: int = 0) -> Donor:
    """Run the model on `tokens` and keep what the interventions in block `layer` need."""
    names = [f"blocks.{layer}.{hook}" for hook in ("hook_resid_pre", "attn.hook_v", *SCORES)]
    _, cache = model.run_with_cache(tokens, names_filter=names)
    resid_pre, value, scores, pattern = (cache[name] for name in names)
    return Donor(layer, model.config.front, not torch.equal(scores, pattern), resid_pre, value, scores)


def swap_self_path(donor: Donor, at: Int[Tensor, "row"]) -> Hooks:
    """Hooks for `run_with_hooks`: in each sequence, position `at` is given its self path in the donor's run."""
    row, here = torch.arange(len(at)), at + donor.front
    seen: dict[str, Tensor] = {}

    def read_residual(resid_pre: Tensor, hook: nn.Module) -> None:
        seen["residual"] = donor.resid_pre[row, here] - resid_pre[row, here]

    def read_value(value: Tensor, hook: nn.Module) -> None:
        seen["value"] = donor.value[row, here] - value[row, here]

    def read_diagonal(pattern: Tensor, hook: nn.Module) -> None:
        seen["weight"] = pattern[row, :, here, here]

    def swap_value(z: Tensor, hook: nn.Module) -> Tensor:
        swapped = z.clone()
        swapped[row, here] += seen["weight"][..., None] * seen["value"]
        return swapped

    def swap_residual(resid_mid: Tensor, hook: nn.Module) -> Tensor:
        swapped = resid_mid.clone()
        swapped[row, here] += seen["residual"]
        return swapped

    return [
        (donor.block + "hook_resid_pre", read_residual),
        (donor.block + "attn.hook_v", read_value),
        (donor.block + "attn.hook_pattern", read_diagonal),
        (donor.block + "attn.hook_z", swap_value),
        (donor.block + "hook_resid_mid", swap_residual),
    ]


def flatten_comparison(donor: Donor, at: Int[Tensor, "row"], copies: Bool[Tensor, "row pos"]) -> Hooks:
    """Hooks for `run_with_hooks`: in each sequence, position `at` asks the others as it does in the donor's run.

    A softmax sees differences of scores alone, and a whole row may lie higher than another without saying anything. So
    there the donor's row is moved such that the places which hold no copy of the token together weigh
    as much as before; then the weight of the place itself, against them, is what it was.
    """
    row, here = torch.arange(len(at)), at + donor.front

    def ask_as_donor(scores: Tensor, hook: nn.Module) -> Tensor:
        own, asked = scores[row, :, here], donor.scores[row, :, here]  # [row, head, key]
        itself = torch.zeros(len(at), own.shape[-1], dtype=torch.bool, device=own.device)
        itself[row, here] = True
        if donor.normalised:
            behind = own.shape[-1] - donor.front - copies.shape[1]
            equal = itself | torch.nn.functional.pad(copies.to(own.device), (donor.front, behind))
            asked = asked + _total(own, equal) - _total(asked, equal)
        flattened = scores.clone()
        flattened[row, :, here] = torch.where(itself[:, None], own, asked)
        return flattened

    return [(donor.block + SCORES[0], ask_as_donor)]


def _total(scores: Float[Tensor, "row head key"], without: Bool[Tensor, "row key"]) -> Float[Tensor, "row head 1"]:
    """The logarithm of the weight of all keys but some; zero where a mask leaves none."""
    total = scores.masked_fill(without[:, None], -torch.inf).logsumexp(-1, keepdim=True)
    return total.nan_to_num(neginf=0.0)
