"""Any transformer that counts, as the measures want it: sequences in, logits of counts out, hook points by our names.

    Adapter(bridge, T=8, L=5, causal=True)

The measures read the stream before attention, values, scores and pattern, and write two places of a block: `z`, what
each head has gathered, and what attention adds to the stream. Where a name means something else, or what is written
there is not heard, a verdict would be wrong without a sign. So an adapter tries its hook points when it is made: each
block, given the `z` and the stream of another sequence, must answer as on that sequence.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from counting_interp.models import task
from counting_interp.util.errors import InterpError

# Our names, and where TransformerLens' models have them. Our `hook_resid_mid` is only ever added to, and what attention
# writes is where adding reaches all that follows: in a TransformerBridge, `hook_resid_mid` is the input of the second
# norm, and the residual around the feed-forward layer does not hear of it.
HOOKS = {
    "hook_resid_pre": "blocks.{layer}.hook_resid_pre",  # [row, pos, d_model]
    "attn.hook_v": "blocks.{layer}.attn.hook_v",  # [row, pos, head, d_head]
    "attn.hook_attn_scores": "blocks.{layer}.attn.hook_attn_scores",  # [row, head, query, key]
    "attn.hook_pattern": "blocks.{layer}.attn.hook_pattern",  # [row, head, query, key]
    "attn.hook_z": "blocks.{layer}.attn.hook_z",  # [row, pos, head, d_head]
    "hook_resid_mid": "blocks.{layer}.hook_attn_out",  # [row, pos, d_model]
    "mlp.hook_pre": "blocks.{layer}.mlp.hook_pre",  # [row, pos, d_mlp]
}
SCORES, PATTERN = "attn.hook_attn_scores", "attn.hook_pattern"
TOLERANCE = 1e-3  # of the largest number: far above rounding in single precision, far below another sequence's answer
Hooks = list[tuple[str, Callable[..., Any]]]


@dataclass(frozen=True)
class AdaptedSizes:
    """What was told and measured of a model; see `models.sizes.Sizes`. Class i always means count i + 1."""

    name: str
    T: int
    L: int
    d: int
    p: int
    n_layers: int
    n_heads: int
    n_positions: int
    front: int
    softmax: bool
    causal: bool
    first_count: int = 1
    extras: tuple[str, ...] = ("a block of its own",)

    @property
    def classes(self) -> int:
        return self.L

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(eq=False)
class Adapter:
    """A counting model made of `module`, which is put into eval mode.

    Args:
        module: a TransformerBridge, a HookedRootModule, or any torch module. In one without `run_with_hooks`, a hook
            point is a submodule with that output: a HookPoint, an nn.Identity, or a layer.
        T, L: sequences have L tokens from 0..T-1; L is at least 3 and at most T.
        causal: whether a place sees only what stands before it. The true answer is then the count so far.
        front: how many places of the module's input come before the sequence.
        encode: from sequences [row, L] to the module's input [row, front + L or more]. As they are by default.
        read: from the module's output to logits [row, L, L]: at each place of the sequence, for each count from 1 to L.
            By default the first L classes of the L places behind `front`.
        hooks: where the module has hook points by other names than HOOKS, with `{layer}` for the number of the block.
            Where scores cannot be written, they are taken for the logarithm of the pattern, which is written instead.
        name: what to call it.
        metadata: `{"training": {"sampler": "paper"}}` if it was trained on that one; otherwise two are tried.
    """

    module: nn.Module
    T: int
    L: int
    causal: bool = False
    front: int = 0
    encode: Callable[[Tensor], Tensor] = lambda sequences: sequences
    read: Callable[[Any], Tensor] | None = None
    hooks: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 3 <= self.L <= self.T:
            raise InterpError(f"a model to be classified needs 3 <= L <= T, got L={self.L}, T={self.T}")
        if unknown := sorted(set(self.hooks) - set(HOOKS)):
            raise InterpError(f"there is no hook point {unknown[0]!r} to rename; there are {', '.join(HOOKS)}")
        self.module.eval()
        self._has = getattr(self.module, "hook_dict", None) or dict(self.module.named_modules())
        self._where = {**HOOKS, **self.hooks}
        self._where["hook_attn_out"] = self._where["hook_resid_mid"]  # both are where attention's output is added
        self._pattern_only = False
        self.config = AdaptedSizes(self.name or type(self.module).__name__, **self._sizes())
        self._check()

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def run_with_hooks(self, tokens: Int[Tensor, "row pos"], *, fwd_hooks: Any = ()) -> Tensor:
        """Logits [row, pos, class]; the functions are called with what passes the points, as in TransformerLens."""
        hooks = [self._placed(name, function) for name, function in fwd_hooks]
        inputs = self.encode(tokens.to(self.device))
        output = self._run(inputs, hooks)
        return output[:, self.front : self.front + self.L, : self.L] if self.read is None else self.read(output)

    def run_with_cache(self, tokens: Int[Tensor, "row pos"], *, names_filter: Any = ()) -> tuple[Tensor, Any]:
        """Logits, and what passed the named hook points."""
        cache: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[..., None]:
            return lambda value, hook: cache.__setitem__(name, value.clone())

        logits = self.run_with_hooks(tokens, fwd_hooks=[(name, keep(name)) for name in names_filter])
        if missing := [name for name in names_filter if name not in cache]:
            raise InterpError(f"the hook point for {missing[0]} was not reached: {self._point(missing[0])}")
        return logits, cache

    @torch.no_grad()
    def predict(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        """The predicted count at each position."""
        logits = self.run_with_hooks(tokens.reshape(-1, self.L))
        return (logits.argmax(-1) + self.config.first_count).reshape(tokens.shape)

    def truth(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        return task.running_count(tokens) if self.causal else task.histogram(tokens)

    # --- hook points -------------------------------------------------------------------------------------------

    def _run(self, inputs: Tensor, hooks: Hooks) -> Any:
        run_with_hooks: Any = getattr(self.module, "run_with_hooks", None)
        if run_with_hooks is not None:
            return run_with_hooks(inputs, fwd_hooks=hooks)
        handles = [
            self._has[name].register_forward_hook(
                lambda point, _, value, function=function: function(value, hook=point)
            )
            for name, function in hooks
        ]
        try:
            return self.module(inputs)
        finally:
            for handle in handles:
                handle.remove()

    def _placed(self, name: str, function: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
        """A hook by our names as one by the module's."""
        if not (self._pattern_only and name.endswith(SCORES)):
            return self._point(name), function

        def on_pattern(pattern: Tensor, hook: Any) -> Tensor | None:
            scores = function(pattern.log(), hook=hook)
            return None if scores is None else scores.softmax(-1)

        return self._point(name.replace(SCORES, PATTERN)), on_pattern

    def _point(self, name: str) -> str:
        _, layer, rest = name.split(".", 2)
        point = self._where[rest].format(layer=layer)
        if point not in self._has:
            near = ", ".join(get_close_matches(point, self._has, 3)) or "none like it"
            raise InterpError(
                f"{type(self.module).__name__} has no hook point {point!r} (it has {near}); "
                f"say where it is with hooks={{{rest!r}: ...}}"
            )
        return point

    # --- what it is, and whether it hears ----------------------------------------------------------------------

    @torch.no_grad()
    def _sizes(self) -> dict[str, Any]:
        first = self._where["hook_resid_pre"]
        n_layers = 0
        while "{layer}" in first and first.format(layer=n_layers) in self._has:
            n_layers += 1
        n_layers = max(n_layers, 1)
        names = [f"blocks.{n_layers - 1}.{name}" for name in ("hook_resid_pre", PATTERN, "mlp.hook_pre")]
        logits, cache = self.run_with_cache(torch.arange(self.L)[None], names_filter=names)
        if tuple(logits.shape) != (1, self.L, self.L):
            raise InterpError(
                f"an answer needs logits for {self.L} places and the counts 1..{self.L}, of shape "
                f"[1, {self.L}, {self.L}], got {list(logits.shape)}; say with read= where they are in the output"
            )
        stream, pattern, hidden = (cache[name] for name in names)
        sizes = {"d": stream.shape[-1], "n_positions": stream.shape[1], "p": hidden.shape[-1]}
        told = {name: getattr(self, name) for name in ("T", "L", "front", "causal")}
        softmax = _close(pattern.sum(-1), torch.ones(()))
        return {**told, **sizes, "n_heads": pattern.shape[1], "n_layers": n_layers, "softmax": softmax}

    @torch.no_grad()
    def _check(self) -> None:
        """Refuse hook points that are not what the measures take them for."""
        here, there = task.sample("uniform", 8, T=self.T, L=self.L, generator=0).split(4)
        coded = self.encode(here.to(self.device)) != self.encode(there.to(self.device))
        behind = coded.shape[1] - self.front - self.L
        if behind < 0 or not torch.equal(coded.cpu(), nn.functional.pad(here != there, (self.front, behind))):
            raise InterpError(
                f"encode must put token l of a sequence at place front + l (front={self.front}) and nowhere else"
            )
        patterns = []
        for layer in range(self.config.n_layers):
            patterns.append(self._check_pattern(here, layer))
            self._check_writes(here, there, layer)
        self._check_hidden(here)
        if self.causal == any(bool(pattern.triu(1).any()) for pattern in patterns):
            seen = "some of its places see" if self.causal else "no place of it sees"
            raise InterpError(f"causal={self.causal}, but {seen} what comes later; say causal={not self.causal}")

    def _check_pattern(self, tokens: Tensor, layer: int) -> Tensor:
        """z is the values, weighted by the pattern; and scores, when written, change the pattern. Returns it."""
        scores, pattern, value, z = (
            f"blocks.{layer}.{name}" for name in (SCORES, PATTERN, "attn.hook_v", "attn.hook_z")
        )
        _, cache = self.run_with_cache(tokens, names_filter=[pattern, value, z])
        if cache[value].shape != cache[z].shape or not _close(
            torch.einsum("rhqk,rkhd->rqhd", cache[pattern], cache[value]), cache[z]
        ):
            raise InterpError(
                f"in block {layer}, {self._point(z)} {list(cache[z].shape)} is not {self._point(pattern)} "
                f"{list(cache[pattern].shape)} times {self._point(value)} {list(cache[value].shape)}; shapes must be "
                "[row, pos, head, d_head], and [row, head, query, key] for the pattern"
            )
        if not self._pattern_only and not self._hears(tokens, scores, pattern, cache[pattern]):
            if not _close(cache[pattern].sum(-1), torch.ones(())):
                raise InterpError(
                    f"in block {layer}, the pattern does not follow {self._where[SCORES].format(layer=layer)} when "
                    "that is written, and its rows do not sum to one; a hook point is needed for the scores"
                )
            self._pattern_only = True
        seen: list[Tensor] = []
        hooks = [
            (pattern, lambda value, hook: torch.zeros_like(value)),
            (z, lambda value, hook: seen.append(value.clone())),
        ]
        self.run_with_hooks(tokens, fwd_hooks=hooks)
        if seen[0].any():
            raise InterpError(
                f"in block {layer}, {self._point(z)} stays as it is when {self._point(pattern)} is written; name the "
                "point that weights the values: hooks={'attn.hook_pattern': ...}"
            )
        return cache[pattern]

    def _hears(self, tokens: Tensor, scores: str, pattern: str, before: Tensor) -> bool:
        if self._where[SCORES].format(layer=0) not in self._has:
            return False
        after: list[Tensor] = []

        def tilt(value: Tensor, hook: Any) -> Tensor:
            return value + torch.arange(value.shape[-1], dtype=value.dtype, device=value.device)

        with warnings.catch_warnings():  # a TransformerBridge warns where it will not listen
            warnings.simplefilter("ignore")
            hooks = [(scores, tilt), (pattern, lambda value, hook: after.append(value.clone()))]
            self.run_with_hooks(tokens, fwd_hooks=hooks)
        return not torch.equal(after[0], before)

    def _check_writes(self, here: Tensor, there: Tensor, layer: int) -> None:
        """With z and stream of another sequence, the answers are the other sequence's."""
        before, z, added = (f"blocks.{layer}.{name}" for name in ("hook_resid_pre", "attn.hook_z", "hook_resid_mid"))
        _, own = self.run_with_cache(here, names_filter=[before])
        answer, other = self.run_with_cache(there, names_filter=[before, z])
        hooks = [
            (z, lambda value, hook: other[z]),
            (added, lambda value, hook: value + other[before] - own[before]),
        ]
        moved = self.run_with_hooks(here, fwd_hooks=hooks)
        if not _close(moved, answer):
            raise InterpError(
                f"in block {layer}, writing {self._point(z)} and {self._point(added)} does not replace what the block "
                "passes on; name the point where attention's output joins the stream: hooks={'hook_resid_mid': ...}"
            )

    def _check_hidden(self, tokens: Tensor) -> None:
        """The last feed-forward layer answers to its pre-activations."""
        name = f"blocks.{self.config.n_layers - 1}.mlp.hook_pre"
        switched_on = (name, lambda value, hook: value.abs() + 1)
        if torch.equal(self.run_with_hooks(tokens), self.run_with_hooks(tokens, fwd_hooks=[switched_on])):
            raise InterpError(
                f"the answers do not change with {self._point(name)} of the last block; name the point that its "
                "hidden units read: hooks={'mlp.hook_pre': ...}"
            )


def _close(one: Tensor, other: Tensor) -> bool:
    other = other.to(one)
    return bool((one - other).abs().max() <= TOLERANCE * other.abs().max().clamp_min(1e-6))
