"""Training by autograd on the hooked module itself: any block, and several runs in one batched computation.

The weights of R runs lie in tensors [run, ...]; `vmap` runs the module on all of them at once. The losses of different
runs share no weights, so the gradient of their sum is the gradient of each. A product of R small matrices costs little
more than one, and the overhead of a step is paid once: 16 runs take about four times as long as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap

from counting_interp.models.config import CountingConfig
from counting_interp.models.cost import batch_size
from counting_interp.models.training.engine import Recipe, draw_tokens, flushed_denormals
from counting_interp.models.transformer import CountingTransformer


class TorchEngine:
    """See `Engine`; sequences are tokens [batch, pos]."""

    def __init__(self, config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> None:
        self.config, self.recipe = config, recipe
        self.module = _WithoutChecks(CountingTransformer(config, weights))
        self._weights = {name: w.detach() for name, w in self.module.model.named_parameters()}
        flat = np.zeros(config.num_parameters, config.dtype)
        self.moments = (flat, flat.copy())

    def draw(self, epoch: int) -> Int[Tensor, "batch pos"]:
        return draw_tokens(self.config, self.recipe, epoch)

    def given(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        self.module.model.with_bos(tokens)  # which checks them
        return tokens.long()

    def part(self, data: Int[Tensor, "batch pos"], first: int, last: int) -> Int[Tensor, "part pos"]:
        return data[first:last]

    def train(self, data: Int[Tensor, "batch pos"], steps_done: int) -> float:
        return train_together([self], [data], steps_done)[0]

    def count_right(self, data: Int[Tensor, "batch pos"]) -> int:
        correct = 0
        for tokens in data.split(batch_size(self.config)):
            counts = self.logits(tokens).argmax(-1) + self.config.first_count
            correct += int((counts == self.module.model.truth(tokens)).sum())
        return correct

    @torch.no_grad()
    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        with arithmetic():
            return _logits(self.module, {name: w[None] for name, w in self._weights.items()}, tokens[None])[0]

    def state_dict(self) -> dict[str, Tensor]:
        return {name: w.clone() for name, w in self._weights.items()}


# From stacked weights, tokens [run, batch, pos] and classes: the loss of each run, and gradients by trained weight.
Differentiate: TypeAlias = Callable[[dict[str, Tensor], Tensor, Tensor], tuple[Tensor, list[Tensor | None]]]


def differentiation(engine: TorchEngine) -> Differentiate:
    """The loss and its gradients by autograd."""
    module, trained = engine.module, [parameter.name for parameter in engine.config.parameters if parameter.trained]

    def differentiate(
        weights: dict[str, Tensor], tokens: Tensor, classes: Tensor
    ) -> tuple[Tensor, list[Tensor | None]]:
        loss = _loss(_logits(module, weights, tokens), classes)
        return loss, list(torch.autograd.grad(loss.sum(), [weights[name] for name in trained], allow_unused=True))

    return differentiate


def train_together(
    engines: Sequence[TorchEngine],
    data: Sequence[Int[Tensor, "batch pos"]],
    steps_done: int,
    differentiate: Differentiate | None = None,
) -> list[float]:
    """One epoch of several runs of the same model and recipe, each on its own data; returns their mean losses.

    Args:
        differentiate: replaces autograd for batches of full size.
    """
    config, recipe, module = engines[0].config, engines[0].recipe, engines[0].module
    stacked = {name: torch.stack([engine._weights[name] for engine in engines]) for name in engines[0]._weights}
    trained = {
        parameter.name: stacked[parameter.name].requires_grad_() for parameter in config.parameters if parameter.trained
    }
    optimizer = torch.optim.AdamW(
        list(trained.values()),
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    moments = _set_moments(optimizer, trained, engines, steps_done)
    tokens = torch.stack(list(data))
    classes = module.model.truth(tokens) - config.first_count
    n, total = tokens.shape[1], torch.zeros(len(engines), dtype=torch.float64)
    starts = range(0, n, recipe.batch_size)
    by_autograd = differentiation(engines[0])
    with arithmetic():
        for at, rate in zip(starts, recipe.rates(steps_done, len(starts)).tolist(), strict=True):
            batch = slice(at, at + recipe.batch_size)
            step = differentiate if differentiate is not None and at + recipe.batch_size <= n else by_autograd
            loss, gradients = step(stacked, tokens[:, batch], classes[:, batch])
            for weight, gradient in zip(trained.values(), gradients, strict=True):
                weight.grad = gradient if gradient is None else gradient.contiguous()  # as the fused step needs it
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            total += loss.detach() * tokens[:, batch].shape[1]
    for i, engine in enumerate(engines):
        for name, weight in trained.items():
            engine._weights[name].copy_(weight.detach()[i])
        for moment, stack in zip(engine.moments, moments, strict=True):
            moment[:] = torch.cat([weight[i].flatten() for weight in stack]).numpy()
    return (total / n).tolist()


def _set_moments(
    optimizer: torch.optim.AdamW, trained: dict[str, Tensor], engines: Sequence[TorchEngine], steps_done: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Give the optimizer the moments of the runs; returns the tensors that it updates."""
    sizes = [weight[0].numel() for weight in trained.values()]
    stacks: list[list[Tensor]] = []
    for which in (0, 1):
        flat = torch.from_numpy(np.stack([engine.moments[which] for engine in engines]))
        pieces = zip(flat.split(sizes, 1), trained.values(), strict=True)
        stacks.append([piece.reshape(weight.shape).clone() for piece, weight in pieces])
    for weight, first, second in zip(trained.values(), *stacks, strict=True):
        optimizer.state[weight] = {"step": torch.tensor(float(steps_done)), "exp_avg": first, "exp_avg_sq": second}
    return stacks[0], stacks[1]


class _WithoutChecks(nn.Module):
    """The model without the checks of its tokens: they read values, which `vmap` does not allow."""

    def __init__(self, model: CountingTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Int[Tensor, "b inner_pos"]) -> Float[Tensor, "b pos class"]:
        return self.model.run_blocks(batch)[:, -self.model.config.L :]


def _logits(
    module: _WithoutChecks, weights: dict[str, Tensor], tokens: Int[Tensor, "run batch pos"]
) -> Float[Tensor, "run batch pos class"]:
    config = module.model.config
    if config.has_bos:
        tokens = torch.cat([tokens.new_full((*tokens.shape[:2], 1), config.T), tokens], 2)
    named = {f"model.{name}": weight for name, weight in weights.items()}
    return vmap(lambda run, batch: functional_call(module, run, (batch,)))(named, tokens)


def _loss(logits: Float[Tensor, "run batch pos class"], classes: Int[Tensor, "run batch pos"]) -> Float[Tensor, "run"]:
    """Mean cross-entropy of each run."""
    return -logits.log_softmax(-1).gather(-1, classes[..., None]).mean((1, 2, 3))


@contextmanager
def arithmetic() -> Iterator[None]:
    """Flushed denormals until the `with` ends, and one thread: bits of a sum may depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with flushed_denormals():
            yield
    finally:
        torch.set_num_threads(threads)
