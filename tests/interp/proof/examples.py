"""Small models near the border between right and wrong, and the truth about them by running every sequence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch

from counting_interp.models import CountingConfig, CountingTransformer, task


def all_sequences(T: int, L: int) -> torch.Tensor:
    return torch.tensor(list(product(range(T), repeat=L)))


def fitted_model(
    variant: str, *, T: int, L: int, d: int, p: int, seed: int, extra_class: bool = False, dtype: str = "float64"
) -> CountingTransformer:
    """Random weights, and a read-out of the count fitted to all sequences by least squares: logits c y - c^2 / 2 pick
    the integer next to y. With p large enough every sequence is right, with p a little smaller a few are wrong.
    `variant` may end in ` alike`: a constant mixer with one value on its diagonal and one beside it."""
    variant, _, alike = variant.partition(" ")
    config = CountingConfig.parse(
        variant, T=T, L=L, d=d, p=p, seed=seed, dtype=dtype, n_classes=L + 1 if extra_class else L
    )
    model = CountingTransformer(config)
    mlp = model.blocks[0].mlp
    tokens = all_sequences(T, L)
    with torch.no_grad():
        mlp.W_in.mul_(2.0)
        if alike:
            A = model.state_dict()["blocks.0.attn.A"]  # the same memory
            A.copy_(torch.where(torch.eye(L, dtype=torch.bool), A[0, 0], A[0, 1]))
        hidden = model.run_with_cache(tokens)[1]["post", 0][:, -L:].reshape(-1, p).double()
        features = torch.cat([hidden, torch.ones(len(hidden), 1)], 1)
        target = task.histogram(tokens).reshape(-1, 1).double()
        weights = torch.linalg.lstsq(features, target, driver="gelsd").solution[:, 0]
        weights[weights.abs() < 1e-20] = 0.0  # of hidden units that are never active: not in the ordinary range
        count = torch.arange(config.classes, dtype=torch.float64) + config.first_count
        mlp.W_out.copy_(weights[:-1, None] * count)
        mlp.b_out.copy_(weights[-1] * count - count**2 / 2)
    return model


def uniform_positions(model: CountingTransformer) -> bool:
    """Whether no position differs from another."""
    if model.config.mixing != "lin":
        return True
    A, own = model.state_dict()["blocks.0.attn.A"], torch.eye(model.config.L, dtype=torch.bool)
    return bool((A[own] == A[0, 0]).all() and (A[~own] == A[0, 1]).all())


def broken(model: CountingTransformer, seed: int, size: float) -> CountingTransformer:
    """The model with one random weight changed by `size` times a normal number."""
    rng = torch.Generator().manual_seed(seed)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    names = sorted(state)
    weight = state[names[int(torch.randint(len(names), (1,), generator=rng))]]
    weight.view(-1)[int(torch.randint(weight.numel(), (1,), generator=rng))] += size * float(
        torch.randn((), generator=rng)
    )
    return CountingTransformer(model.config, weights=state)


def behind_identity(model: CountingTransformer) -> CountingTransformer:
    """A two-layer model that computes what the one-layer `model` does: block 0 does not attend, and its feed-forward
    layer passes positive and negative parts. Needs p >= 2 d and no softmax."""
    config = model.config.replace(n_layers=2)
    d, p = config.d, config.p
    assert p >= 2 * d
    assert not config.softmax
    state = {name.replace("blocks.0.", "blocks.1."): value for name, value in model.state_dict().items()}
    both = torch.zeros(d, p)
    both[:, :d], both[:, d : 2 * d] = torch.eye(d), -torch.eye(d)
    state |= {"blocks.0.mlp.W_in": both, "blocks.0.mlp.b_in": torch.zeros(p)}
    state |= {"blocks.0.mlp.W_out": both.T.clone(), "blocks.0.mlp.b_out": torch.zeros(d)}
    for name in [name for name in state if name.startswith("blocks.1.attn.")]:
        state[name.replace("blocks.1.", "blocks.0.")] = torch.zeros_like(state[name])
    return CountingTransformer(config, weights=state)


@dataclass(frozen=True)
class Truth:
    right: bool
    margin: float


def truth(model: CountingTransformer, max_count: int | None = None) -> Truth:
    """Run every sequence in float64."""
    config = model.config
    exact = CountingTransformer(config.replace(dtype="float64"), weights=model.state_dict())
    tokens = all_sequences(config.T, config.L)
    counts = task.histogram(tokens)
    with torch.no_grad():
        logits = exact(tokens)
    index = (counts - config.first_count).unsqueeze(-1)
    own = logits.gather(-1, index)
    margins = (own - logits.scatter(-1, index, -torch.inf)).min(-1).values
    asked = counts <= (max_count or config.L)
    return Truth(bool((margins[asked] > 0).all()), float(margins[asked].min()))


def wrong_cells(model: CountingTransformer) -> set[tuple[int, int]]:
    """The (token, count) that the model gets wrong in some sequence, by running every one."""
    tokens = all_sequences(model.config.T, model.config.L)
    counts = task.histogram(tokens)
    wrong = model.predict(tokens) != counts
    return set(zip(tokens[wrong].tolist(), counts[wrong].tolist(), strict=True))
