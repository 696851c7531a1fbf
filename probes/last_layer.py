"""From the pre-activations of the last feed-forward layer to the answer: what the read-out changes, and what follows.

For counting transformers it is a formula, as nothing lies behind that layer and nothing goes around it. For any other
model it is the model itself, run again with the pre-activations of one place written in: residuals, norms and an
unembedding come along with the sequence that the place stands in. Tested to agree where both are defined.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from counting_interp.models import CountingTransformer
from counting_interp.models.cost import batch_size
from counting_interp.models.counter import Counter


@runtime_checkable
class LastLayer(Protocol):
    def predict(self, pre: Float[Tensor, "*batch d_mlp"], of: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        """The counts that follow from these pre-activations, at the places of sequences number `of`."""

    def metric(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "d_mlp d_mlp"]:
        """Mean over all places of J^T J, J from a small change of `pre` to the logits without their common shift."""


def last_layer(model: Counter, tokens: Int[Tensor, "row pos"], at: Int[Tensor, "row"]) -> LastLayer:
    """For one place `at` of each sequence."""
    return ByFormula(model) if isinstance(model, CountingTransformer) else ByHooks(model, tokens, at)


class ByFormula:
    """In float64."""

    def __init__(self, model: CountingTransformer) -> None:
        self.model, self.mlp = model, model.blocks[-1].mlp

    def predict(self, pre: Float[Tensor, "*batch d_mlp"], of: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        logits = self.mlp.activation(pre) @ self.mlp.W_out.double().cpu() + self.mlp.b_out.double().cpu()
        return logits.argmax(-1) + self.model.config.first_count

    def metric(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "d_mlp d_mlp"]:
        W_out = self.mlp.W_out.double().cpu()
        effect = W_out - W_out.mean(1, keepdim=True)
        active = self._slopes(pre)
        return (active.T @ active / len(active)) * (effect @ effect.T)

    def _slopes(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "row d_mlp"]:
        """By how much each hidden unit passes on a change: 0 or 1 for a ReLU."""
        with torch.enable_grad():
            at = pre.detach().requires_grad_()
            (slopes,) = torch.autograd.grad(self.mlp.activation(at).sum(), at)
        return slopes


class ByHooks:
    """In the model's own precision."""

    def __init__(self, model: Counter, tokens: Int[Tensor, "row pos"], at: Int[Tensor, "row"]) -> None:
        self.model, self.tokens, self.at = model, tokens, at
        self.size = batch_size(model.config)

    def predict(self, pre: Float[Tensor, "*batch d_mlp"], of: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
        parts = zip(pre.reshape(-1, pre.shape[-1]).split(self.size), of.reshape(-1).split(self.size), strict=True)
        counts = [self._logits(part, rows).argmax(-1) for part, rows in parts]
        return torch.cat(counts).cpu().reshape(of.shape) + self.model.config.first_count

    def metric(self, pre: Float[Tensor, "row d_mlp"]) -> Float[Tensor, "d_mlp d_mlp"]:
        total = pre.new_zeros(pre.shape[-1], pre.shape[-1])
        for part, rows in zip(pre.split(self.size), torch.arange(len(pre)).split(self.size), strict=True):
            with torch.enable_grad():
                written = part.detach().requires_grad_()
                logits = self._logits(written, rows)
                by_class = [torch.autograd.grad(one.sum(), written, retain_graph=True)[0] for one in logits.T]
            jacobian = torch.stack(by_class)  # [class, row, d_mlp]
            effect = (jacobian - jacobian.mean(0)).flatten(0, 1)
            total += effect.T @ effect
        return total / len(pre)

    def _logits(self, pre: Float[Tensor, "part d_mlp"], rows: Int[Tensor, "part"]) -> Float[Tensor, "part class"]:
        config = self.model.config
        each, at = torch.arange(len(rows)), self.at[rows]

        def write(value: Tensor, hook: nn.Module) -> Tensor:
            written = value.clone()
            written[each, at + config.front] = pre.to(value)
            return written

        name = f"blocks.{config.n_layers - 1}.mlp.hook_pre"
        return self.model.run_with_hooks(self.tokens[rows], fwd_hooks=[(name, write)])[each, at]
