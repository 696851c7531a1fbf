"""Which probes apply to which models. A probe returns a result or raises `NotApplicable`, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from counting_interp.models.config import PAPER_MIXINGS, CountingConfig
from counting_interp.models.protocol import ModelSpec
from counting_interp.util.errors import InterpError

if TYPE_CHECKING:
    from torch import Tensor


Reason = Callable[[ModelSpec], "str | None"]  # why a probe cannot run on this configuration; None if it can


class NotApplicable(InterpError):  # noqa: N818 (an answer, not a failure)
    """This probe is not defined for this model. The message says why, and what to run instead."""


def refuse(reason: str | None) -> None:
    """Raise NotApplicable if there is a reason.

    Probes call it through `catalogue.check`, so that `applies_to` and the probe itself always agree.
    """
    if reason is not None:
        raise NotApplicable(reason)


def check_head(config: ModelSpec, head: int | None) -> None:
    if head is not None and not 0 <= head < config.n_heads:
        raise ValueError(f"head must lie in 0..{config.n_heads - 1} for {config.name}, got {head}")


def check_finite(values: Tensor, what: str) -> None:
    """Raise NotApplicable for activations that overflowed, which weights from about 1e19 up cause."""
    if not values.isfinite().all():
        raise NotApplicable(
            f"its {what} overflow, as its weights are too large; scale them down, or load an earlier one"
        )


def needs_bos(config: ModelSpec) -> str | None:
    if config.prefix == 1:
        return None
    if isinstance(config, CountingConfig):
        return f"{config.name} has no `$` token, so nothing can be read from it; only bos and bos+sftm have one"
    return (
        f"{config.name} has prefix={config.prefix} positions before the sequence; one is needed, which stands for `$`"
    )


def needs_softmax(config: ModelSpec) -> str | None:
    if config.softmax:
        return None
    return (
        f"the weights of {config.name} do not add up to one, so mixtures with weights between 0 and 1 are none that it "
        "ever sees; run count-sweep, which moves between its own mixed tokens"
    )


def needs_three_tokens(config: ModelSpec) -> str | None:
    return None if config.T >= 3 else f"three tokens are mixed, and this model knows {config.T}"


def needs_one_layer(config: ModelSpec) -> str | None:
    if config.n_layers == 1:
        return None
    return (
        f"this {config.name} model has {config.n_layers} layers: its first feed-forward layer predicts no count and "
        "its last one does not read token embeddings; the sweep is defined for one layer"
    )


def needs_weights(config: ModelSpec) -> str | None:
    """For probes that read weights by name."""
    if isinstance(config, CountingConfig):
        return None
    return (
        f"this reads weights, and of {config.name} only hook points are known; run readout, which asks how the count "
        "is read out from activations"
    )


def needs_paper_block(config: ModelSpec) -> str | None:
    """For results that are derived from the formula of the paper's six variants."""
    if isinstance(config, CountingConfig) and config.is_paper_block:
        return None
    return (
        f"this is derived for the paper's blocks, and {config.name} has {_beyond(config)}; "
        "the interventions (interp classify, interp probe cue-conflict) need no formula"
    )


def _beyond(config: ModelSpec) -> str:
    return config.beyond_paper if isinstance(config, CountingConfig) else ", ".join(config.extras)


def needs_embedding_mixture(config: ModelSpec) -> str | None:
    """The MLP must read a mixture of embeddings, weighted by attention."""
    beyond = [name for name in config.extras if name not in ("gelu", "causal")]
    if isinstance(config, CountingConfig) and config.mixing not in PAPER_MIXINGS:
        beyond.append(f"the mixer {config.mixing}")
    if not beyond:
        return None
    return (
        f"with {', '.join(beyond)} the feed-forward layer of {config.name} reads no mixture of embeddings; run "
        "count-sweep, which moves between the model's own mixed tokens"
    )


def needs_relu(config: ModelSpec) -> str | None:
    if not isinstance(config, CountingConfig) or config.activation == "relu":
        return None
    return f"the hidden units of {config.name} are never off, its logits no straight lines: it has {config.activation}"


def needs_conflict(config: ModelSpec) -> str | None:
    """Two counts that vary independently need three positions."""
    if config.L >= 3:
        return None
    return f"with L={config.L} two tokens can only have the counts (1, 1); a cue conflict needs L >= 3"


def needs_transplants(config: ModelSpec) -> str | None:
    """A row of the design has four tokens: t, another token, a bystander and a filler."""
    if config.T >= 4 and config.L >= 3:
        return None
    return f"a transplant needs four tokens and counts from 1 to 3 (T >= 4, L >= 3); here T={config.T}, L={config.L}"


def needs_published(config: ModelSpec) -> str | None:
    if not (isinstance(config, CountingConfig) and config.is_paper_block):
        return f"numbers were published of the paper's blocks; {config.name} has {_beyond(config)}"
    if (config.T, config.L, config.n_layers) != (32, 10, 1):
        sizes = f"T={config.T}, L={config.L} and n_layers={config.n_layers}"
        return f"numbers were published of one-layer models with T=32 and L=10; this one has {sizes}"
    if not config.softmax and min(config.d, config.p) < 32:
        return f"of {config.name}, numbers were published for d and p from 32 on; here d={config.d}, p={config.p}"
    return None


def check_layer(config: ModelSpec, layer: int) -> None:
    if not 0 <= layer < config.n_layers:
        raise ValueError(f"layer must lie in 0..{config.n_layers - 1} for {config.name}, got {layer}")
