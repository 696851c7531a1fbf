"""What an architecture would allow, by the paper's arguments. Context for a reader; no label is made from it."""

from __future__ import annotations

from counting_interp.models.config import CountingConfig
from counting_interp.models.sizes import Sizes


def allows(config: Sizes) -> str:
    """One sentence: RC, IC or both."""
    if config.n_layers > 1:
        layers = "two" if config.n_layers == 2 else config.n_layers
        return f"{layers} layers: the paper's capacity arguments are for one, so nothing is ruled out"
    if config.extras or not isinstance(config, CountingConfig):
        return f"with {', '.join(config.extras)} the paper's capacity arguments do not hold: nothing is ruled out"
    if config.mixing == "lin":
        return "a constant mixing matrix cannot compare tokens: only IC is possible"
    if config.name == "dot+sftm":
        return "attention shares sum to one, so no direction common to all tokens can carry the count: only IC"
    if config.p == 1:
        return "one hidden unit cannot tell tokens apart: only RC"
    if config.p < config.T:
        return f"p = {config.p} < T = {config.T} hidden units cannot hold an inventory of all tokens: not IC alone"
    return f"attention can compare and p = {config.p} >= T = {config.T} units can hold an inventory: RC and IC"
