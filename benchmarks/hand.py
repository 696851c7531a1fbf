"""Hand-written counters: attention weights, values and read-outs are formulas, so the mechanism is known for sure.

`truths` and `deep_truths` build families of them from the parts at the end of this file.

The residual stream of a position holds its token (one-hot, `$` last) and registers. A block adds to the registers what
its heads gather, sum_m weight(x_l, x_m) value(stream_m). Then a formula, the block's MLP, rewrites the registers of
each position. The last register is the answer y, and the logit of count c is -(y - c)^2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from counting_interp.models import task
from counting_interp.models.adapter import AdapterSpec

Table = Float[Tensor, "vocab vocab"]
Rng = torch.Generator
Formula = Callable[[Tensor, Tensor], Tensor]  # from names [.., vocab] and registers [.., register] to registers


@dataclass(frozen=True)
class Head:
    """Attention weights of a query token (row) and a key token (column), optionally through a softmax, and values.

    Attributes:
        itself: factor of the weight that a position gives to itself, before the softmax divides.
    """

    weights: Table
    value: Formula
    softmax: bool = False
    itself: float = 1.0


@dataclass(frozen=True)
class HandBlock:
    heads: Sequence[Head]
    after: Formula


class HandCounter(HookedRootModule):
    """See `counting_interp.models.protocol.CountingModel`."""

    def __init__(self, T: int, L: int, registers: int, blocks: Sequence[HandBlock], *, bos: bool = False) -> None:
        super().__init__()
        self.config = AdapterSpec(
            "by hand",
            T,
            L,
            T + bos + registers,
            1,
            len(blocks),
            1,
            L + bos,
            int(bos),
            False,
            False,
            extras=("by hand",),
        )
        self.metadata: dict[str, Any] = {"training": {"sampler": "paper"}}
        self.registers, self.formulas = registers, list(blocks)
        self.blocks = nn.ModuleList(nn.Module() for _ in blocks)
        for block in self.blocks:
            block.hook_attn_out, block.attn = HookPoint(), nn.Module()
            block.attn.hook_q = HookPoint()
        self.setup()

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def forward(self, tokens: Int[Tensor, "b pos"]) -> Float[Tensor, "b pos count"]:
        prefix, vocab = self.config.prefix, self.config.T + self.config.prefix
        tokens = nn.functional.pad(tokens, (prefix, 0), value=self.config.T)
        names = nn.functional.one_hot(tokens, vocab).to(torch.get_default_dtype())
        held = names.new_zeros(*tokens.shape, self.registers)
        for formula, block in zip(self.formulas, self.blocks, strict=True):
            asked = block.attn.hook_q(names[:, :, None])[:, :, 0]  # type: ignore[operator, union-attr]
            written: Any = sum(self._gathered(head, asked, tokens, names, held) for head in formula.heads)
            written = block.hook_attn_out(nn.functional.pad(written, (vocab, 0)))  # type: ignore[operator]
            held = formula.after(names + written[..., :vocab], held + written[..., vocab:])
        counts = torch.arange(1, self.config.L + 1)
        return -(held[..., -1:] - counts).square()[:, prefix:]

    def _gathered(self, head: Head, asked: Tensor, tokens: Tensor, names: Tensor, held: Tensor) -> Tensor:
        rows = asked @ head.weights.to(names.dtype)  # [b, query, vocab]
        weights = rows.gather(-1, tokens[:, None].expand(-1, tokens.shape[1], -1))
        factor = 1 + (head.itself - 1) * torch.eye(tokens.shape[1], dtype=names.dtype)
        weights = (weights + factor.log()).softmax(-1) if head.softmax else weights * factor
        return weights @ head.value(names, held)

    @torch.no_grad()
    def predict(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        return self(tokens.reshape(-1, self.config.L)).argmax(-1).reshape(tokens.shape) + 1

    def truth(self, tokens: Int[Tensor, "*batch pos"]) -> Int[Tensor, "*batch pos"]:
        return task.histogram(tokens)

    def accuracy(self, n: int = 300, seed: int = 0) -> float:
        tokens = task.sample("paper", n, T=self.config.T, L=self.config.L, generator=seed)
        return float((self.predict(tokens) == self.truth(tokens)).float().mean())


# --- truths ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """The known mechanism of a model.

    Attributes:
        labels: the right labels; empty where only the shares are known.
        shares: the shares of RC and IC as built; None where only the label is known.
    """

    labels: tuple[str, ...]
    shares: tuple[float, float] | None = None


Family = Callable[[int, int, Rng], tuple[HandCounter, Truth]]
RC, IC, GATED = (Truth((name,), share) for name, share in (("RC", (1, 0)), ("IC", (0, 1)), ("gated", (0, 0))))


def draw(n: int, low: float, high: float, rng: Rng) -> Tensor:
    return low + (high - low) * torch.rand(n, generator=rng)


def pick(rng: Rng, *choices: float) -> float:
    return choices[int(torch.randint(len(choices), (1,), generator=rng))]


# --- parts -----------------------------------------------------------------------------------------------------------


def bag(T: int, extra: int) -> Formula:
    """A value: every token adds itself to the bag."""
    return lambda names, held: torch.nn.functional.pad(names[..., :T], (0, extra))


def into(register: int, registers: int, amount: Callable[[Tensor, Tensor], Tensor]) -> Formula:
    """A value: every token adds a number to one register."""

    def value(names: Tensor, held: Tensor) -> Tensor:
        said = amount(names, held)
        return torch.nn.functional.one_hot(torch.tensor(register), registers) * said[..., None]

    return value


def one(names: Tensor, held: Tensor) -> Tensor:
    return names.sum(-1)


def own(names: Tensor, held: Tensor) -> Tensor:
    """The bag's entry of the position's own token."""
    T = names.shape[-1]
    return (names * held[..., :T]).sum(-1)


def answer(y: Callable[[Tensor, Tensor], Tensor]) -> Formula:
    return lambda names, held: torch.cat([held[..., :-1], y(names, held)[..., None]], -1)


def everything(T: int) -> Tensor:
    return torch.ones(T, T)


def two_heads(T: int, gain: float = 1.0) -> list[Head]:
    """One head fills the bag with an inventory; the other counts equal tokens into the register after it."""
    return [Head(everything(T), bag(T, 2)), Head(gain * torch.eye(T), into(T, T + 2, one))]


def joined(T: int, L: int, y: Callable[[Tensor, Tensor, Tensor], Tensor]) -> HandCounter:
    """One block with both heads: the answer is y(names, attention's count, the inventory's count)."""
    after = answer(lambda names, held: y(names, held[..., T], own(names, held)))
    return HandCounter(T, L, T + 2, [HandBlock(two_heads(T), after)])
