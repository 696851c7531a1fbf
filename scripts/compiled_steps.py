"""Training steps as compiled code, about twice as fast as autograd after half a minute; needs a C++ compiler.

The gradient of the hooked module is traced into a flat graph of tensor operations, which torch's compiler turns into
C++. Sums are added up in another order: the bits are not those of autograd, nor the same for another number of runs. So
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
    """For batches of full size of that many runs; compiled once in a process, whatever the seeds."""
    return _compiled_step(config.replace(seed=0), batch_size, runs)


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
