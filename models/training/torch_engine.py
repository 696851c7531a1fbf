"""Training by autograd on the hooked module itself: any block, and several runs in one batched computation.

The weights of R runs lie in tensors [run, ...]; `vmap` runs the module on all of them at once. The losses of different
runs share no weights, so the gradient of their sum is the gradient of each. A product of R small matrices costs little
more than one, and the overhead of a step is paid once: 16 runs take about four times as long as one. Who has a C++
compiler and many steps of one shape to do can have them compiled: about twice as fast, after half a minute.

For that the gradient of the hooked module is traced into a flat graph of tensor operations, which torch's compiler
turns into C++. Sums are added up in another order: its bits are not those of autograd, nor the same for
another number of runs. So nothing uses it unasked; a study of many seeds is what it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap

from counting_interp.models.config import CountingConfig
from counting_interp.models.cost import batch_size
from counting_interp.models.training.engine import draw_tokens
from counting_interp.models.training.recipe import Recipe
from counting_interp.models.transformer import CountingTransformer


class TorchEngine:
    """See `Engine`; sequences are tokens [batch, pos]."""

    def __init__(self, config: CountingConfig, recipe: Recipe, weights: dict[str, Tensor]) -> None:
        self.config, self.recipe = config, recipe
        self.module = _WithoutChecks(CountingTransformer(config, weights))
        self._weights = {name: w.detach() for name, w in self.module.model.named_parameters()}
        self._gradients = {name: torch.zeros_like(w) for name, w in self._weights.items()}
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
        right = 0
        for tokens in data.split(batch_size(self.config)):
            counts = self.logits(tokens).argmax(-1) + self.config.first_count
            right += int((counts == self.module.model.truth(tokens)).sum())
        return right

    @torch.no_grad()
    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        with arithmetic():
            return _logits(self.module, {name: w[None] for name, w in self._weights.items()}, tokens[None])[0]

    def state_dict(self) -> dict[str, Tensor]:
        return {name: w.clone() for name, w in self._weights.items()}

    def gradients(self) -> dict[str, Tensor]:
        return dict(self._gradients)


# From stacked weights, tokens [run, batch, pos] and classes: the loss of each run, and the gradients of the trained.
Differentiate: TypeAlias = Callable[[dict[str, Tensor], Tensor, Tensor], tuple[Tensor, list[Tensor | None]]]


def differentiation(engine: TorchEngine) -> Differentiate:
    """By autograd; what is traced when it is compiled."""
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
    fast: Differentiate | None = None,
) -> list[float]:
    """One epoch of several runs of the same model and recipe, each on its own data; returns their mean losses. `fast`
    takes the batches of full size."""
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
    moments = _take_up(optimizer, trained, engines, steps_done)
    tokens = torch.stack(list(data))
    classes = module.model.truth(tokens) - config.first_count
    n, total = tokens.shape[1], torch.zeros(len(engines), dtype=torch.float64)
    starts = range(0, n, recipe.batch_size)
    differentiate = differentiation(engines[0])
    with arithmetic():
        for at, rate in zip(starts, recipe.rates(steps_done, len(starts)).tolist(), strict=True):
            batch = slice(at, at + recipe.batch_size)
            whole = at + recipe.batch_size <= n
            now = fast if fast is not None and whole else differentiate
            loss, gradients = now(stacked, tokens[:, batch], classes[:, batch])
            for weight, gradient in zip(trained.values(), gradients, strict=True):
                weight.grad = gradient if gradient is None else gradient.contiguous()  # as the fused step needs it
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            total += loss.detach() * tokens[:, batch].shape[1]
    for i, engine in enumerate(engines):
        for name, weight in trained.items():
            engine._weights[name].copy_(weight.detach()[i])
            if weight.grad is not None:
                engine._gradients[name] = weight.grad[i].clone()
        for moment, stack in zip(engine.moments, moments, strict=True):
            moment[:] = torch.cat([part[i].flatten() for part in stack]).numpy()
    return (total / n).tolist()


def _take_up(
    optimizer: torch.optim.AdamW, trained: dict[str, Tensor], engines: Sequence[TorchEngine], steps_done: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Give the optimizer the moments of the runs; returns the tensors in which it keeps them."""
    sizes = [weight[0].numel() for weight in trained.values()]
    stacks: list[list[Tensor]] = []
    for which in (0, 1):
        flat = torch.from_numpy(np.stack([engine.moments[which] for engine in engines]))
        parts = zip(flat.split(sizes, 1), trained.values(), strict=True)
        stacks.append([part.reshape(weight.shape).clone() for part, weight in parts])
    for weight, first, second in zip(trained.values(), *stacks, strict=True):
        optimizer.state[weight] = {"step": torch.tensor(float(steps_done)), "exp_avg": first, "exp_avg_sq": second}
    return stacks[0], stacks[1]


class _WithoutChecks(nn.Module):
    """The model on sequences that are known to be sequences: a check looks at values, which `vmap` does not allow."""

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
    return vmap(lambda one, batch: functional_call(module, one, (batch,)))(named, tokens)


def _loss(logits: Float[Tensor, "run batch pos class"], classes: Int[Tensor, "run batch pos"]) -> Float[Tensor, "run"]:
    """Mean cross-entropy of each run."""
    return -logits.log_softmax(-1).gather(-1, classes[..., None]).mean((1, 2, 3))


@contextmanager
def arithmetic() -> Iterator[None]:
    """One thread, as the bits of a sum may depend on their number, and denormal numbers flushed to zero."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)


def compiled_step(engine: TorchEngine, runs: int) -> Differentiate:
    """For batches of full size of that many runs; compiled once in a process, whatever the seeds."""
    return _compiled_step(engine.config.replace(seed=0), engine.recipe.batch_size, runs)


@cache
def _compiled_step(config: CountingConfig, batch_size: int, runs: int) -> Differentiate:
    from torch._inductor import config as compiler  # torch's compiler takes seconds to import
    from torch.fx.experimental.proxy_tensor import make_fx

    engine = TorchEngine(config, Recipe(batch_size=batch_size), CountingTransformer(config).state_dict())
    by_autograd = differentiation(engine)
    trained = [parameter.name for parameter in config.parameters if parameter.trained]

    def differentiate(
        weights: dict[str, Tensor], tokens: Tensor, classes: Tensor
    ) -> tuple[Tensor, list[Tensor | None]]:
        for name in trained:
            weights[name].requires_grad_()
        return by_autograd(weights, tokens, classes)

    weights = {name: torch.stack([weight] * runs) for name, weight in engine.state_dict().items()}
    tokens = torch.zeros(runs, batch_size, config.L, dtype=torch.long)
    step = torch.compile(make_fx(differentiate)(weights, tokens, tokens.clone()), fullgraph=True)

    def compiled(weights: dict[str, Tensor], tokens: Tensor, classes: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        with torch.no_grad():  # of one layout in memory: it would be compiled once more for another
            return step({name: w.detach() for name, w in weights.items()}, tokens.contiguous(), classes.contiguous())

    with arithmetic(), compiler.patch({"cpp.threads": 1}):
        compiled(weights, tokens, tokens.clone())
    return compiled
