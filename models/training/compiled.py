"""The step of `TorchEngine` as compiled code, for many steps of one shape: about twice as fast, after half a minute.

The gradient of the hooked module is traced into a flat graph of tensor operations, which torch's compiler fuses and
turns into C++. It needs a C++ compiler, and sums are added up in another order: its bits are not those of autograd, nor
the same for another number of runs. So nothing uses it unasked; a study of many seeds is what it is for.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch._inductor import config as compiler
from torch.fx.experimental.proxy_tensor import make_fx

from counting_interp.models.config import CountingConfig
from counting_interp.models.training.recipe import Recipe
from counting_interp.models.training.torch_engine import Differentiate, TorchEngine, arithmetic, differentiation
from counting_interp.models.transformer import CountingTransformer


def compiled_step(engine: TorchEngine, runs: int) -> Differentiate:
    """For batches of full size of that many runs; compiled once in a process, whatever the seeds."""
    return _compiled_step(engine.config.replace(seed=0), engine.recipe.batch_size, runs)


@cache
def _compiled_step(config: CountingConfig, batch_size: int, runs: int) -> Differentiate:
    engine = TorchEngine(config, Recipe(batch_size=batch_size), CountingTransformer(config).state_dict())
    by_autograd = differentiation(engine)
    trained = [one.name for one in config.parameters if one.trained]

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
