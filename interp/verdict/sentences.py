"""A verdict in words: what a mechanism means, what argues against it, and what the sizes of a model allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from counting_interp.models.config import CountingConfig
from counting_interp.models.protocol import ModelSpec
from counting_interp.util.text import percent, two_places

if TYPE_CHECKING:
    from counting_interp.interp.verdict.verdict import Verdict

MEANINGS = {
    "RC": "relation-based. Attention does the counting, and the MLP reads the count in the same way for every token.",
    "IC": "inventory-based. Attention only gathers, and the MLP finds the token's share by itself.",
    "gated": "attention compares, and the MLP must know the token to read the result.",
    "IC, sharpened by attention": "inventory-based, and part of each step needs attention's match.",
    "either suffices": "attention's match alone gives the count, and so does the inventory alone.",
    "both needed": "the match and the inventory are both needed to raise the count.",
    "mixed": "several mechanisms share the count.",
    "undecided": "the transplants do not agree on a mechanism.",
    "unsolved": "it does not count well enough to say how.",
}
NAMES = {
    "RC": "share of RC",
    "IC": "share of IC",
    "gated": "share that is gated",
    "own": "own: its copies, to its own position",
    "relation": "relation: another token's copies, to that token's position",
    "inventory": "inventory: its copies, to a bystander",
    "null": "null: another token's copies, to a bystander",
}
EXPECTED = {  # under RC, IC and gated
    "RC": ("1", "0", "0"),
    "IC": ("0", "1", "0"),
    "gated": ("0", "0", "1"),
    "own": ("1", "1", "1"),
    "relation": ("1", "0", "0"),
    "inventory": ("0", "1", "0"),
    "null": ("0", "0", "0"),
}
for _where, _words in (("question", "outside of the list"), ("list", "in the list")):
    NAMES[f"{_where}_moves"] = f"own, transplanted {_words}"
    EXPECTED[f"{_where}_moves"] = ("", "", "")
    for _share in ("RC", "IC", "gated"):
        NAMES[f"{_where}_{_share}"] = f"{NAMES[_share]}, {_words}"
        EXPECTED[f"{_where}_{_share}"] = EXPECTED[_share]
SHARES = ("RC", "IC", "gated")
ONE_HALF = 0.5  # the share that a label needs


def describe(spec: ModelSpec) -> str:
    """`bos+sftm, T=32, L=10, d=45, p=2`."""
    layers = "" if spec.n_layers == 1 else f", {spec.n_layers} layers"
    return f"{spec.name}, T={spec.T}, L={spec.L}, d={spec.d}, p={spec.p}{layers}"


def objections(verdict: Verdict) -> Iterator[str]:
    """What a careful reader would object to a verdict on a solved model."""
    if verdict.mechanism in ("unsolved", "undecided"):
        return
    if verdict.accuracy < 0.98:
        yield f"it errs at {percent(1 - verdict.accuracy)} of positions, which the mechanism does not explain"
    missing = [k for k, right in enumerate(verdict.accuracy_by_count, 1) if right is not None and right < 0.5]
    if missing:
        yield f"it is mostly wrong where a token occurs {' or '.join(map(str, missing))} times"
    for share in verdict.shares:
        if share.low < ONE_HALF < share.high:
            yield f"the interval of its share of {share.name} holds one half, where labels change"
    measured = verdict.transplants
    if measured is not None and len(measured.blocks) > 1 and measured.relay < 0.9:
        others = [b + 1 for b, w in zip(measured.blocks, measured.weights.tolist(), strict=True) if w == 0]
        kept = two_places(measured.relay)
        yield f"blocks hand the count on ({kept} of it without that); nothing is proved of block {_list(others)}"


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def allows(spec: ModelSpec) -> str:
    """What the paper's arguments allow for these sizes. It is context for a reader; no label is made from it."""
    if spec.n_layers > 1:
        return f"{spec.n_layers} layers: the paper's capacity arguments are for one, so nothing is ruled out"
    if not isinstance(spec, CountingConfig) or not spec.is_paper_block:
        beyond = spec.beyond_paper if isinstance(spec, CountingConfig) else ", ".join(spec.extras)
        return f"with {beyond} the paper's capacity arguments do not hold: nothing is ruled out"
    if spec.mixing == "lin":
        return "a constant mixing matrix cannot compare tokens: only IC is possible"
    if spec.name == "dot+sftm":
        return "attention shares sum to one, so no direction common to all tokens can carry the count: only IC"
    if spec.p == 1:
        return "one hidden unit cannot tell tokens apart: only RC"
    if spec.p < spec.T:
        return f"p = {spec.p} < T = {spec.T} hidden units cannot hold an inventory of all tokens: not IC alone"
    return f"attention can compare and p = {spec.p} >= T = {spec.T} units can hold an inventory: RC and IC"
