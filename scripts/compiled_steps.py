"""Compiled training steps, about twice as fast as autograd. Compiling takes half a minute and needs a C++ compiler.

The gradient of the hooked module is traced into a flat graph of tensor operations, which torch's compiler turns into
C++. Sums are in another order, so weights differ from autograd's in their last bits, and between numbers of runs. So
only studies of many seeds use it: `advance_together(runs, compiled_step(config, batch_size, len(runs)))`.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.models.training import Recipe
from counting_interp.models.training.torch_engine import Differentiate, TorchEngine, arithmetic, differentiation


def compiled_step(config: CountingConfig, batch_size: int, runs: int) -> Differentiate:
    """A step for full batches of `runs` stacked runs, compiled once per process for all seeds."""
    return _compiled_step(config.replace(seed=0), batch_size, runs)


@cache
def _compiled_step(config: CountingConfig, batch_size: int, runs: int) -> Differentiate:
    from torch._inductor import config as compiler  # takes seconds to import
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
        with torch.no_grad():  # another memory layout would trigger another compilation
            return step({name: w.detach() for name, w in weights.items()}, tokens.contiguous(), classes.contiguous())

    plain = torch.backends.cpu.get_cpu_capability() == "DEFAULT"  # torch would write vectors that it lacks
    with arithmetic(), compiler.patch({"cpp.threads": 1, **({"cpp.simdlen": 1} if plain else {})}):
        compiled(weights, tokens, tokens.clone())
    return compiled
