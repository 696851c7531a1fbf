"""Models correct in real numbers and wrong when they are run, one for each way in which floating point can
do that. Every change but the named one keeps the real function exactly: powers of two, and terms that cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement

import numpy as np
import torch

from counting_interp.models import CountingTransformer, task
from counting_interp.models.config import CountingConfig
from counting_interp.models.constructions import construct
from tests.interp.proof.examples import all_sequences, behind_identity

T, L = 8, 5
BLOCK = "blocks.0."
State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Planted:
    """Attributes:
    flushed: whether it takes flushing to zero to make the model wrong.
    """

    name: str
    build: Callable[[], CountingTransformer]
    flushed: bool = False

    def __str__(self) -> str:
        return self.name


def double(name: str) -> tuple[CountingConfig, State]:
    """A construction of T = 8, L = 5 with its weights in float64."""
    model = construct(name, T=T, L=L)
    return model.config, {key: value.double() for key, value in model.state_dict().items()}


def split(name: str, dtype: str = "float32") -> tuple[CountingConfig, State]:
    """The construction with axes of its own for attention (the first quarter) and for the feed-forward layer (the
    second), and free ones. With 4 d axes sqrt(d) doubles, which W_Q makes up for."""
    config, w = double(name)
    d = config.d
    wide: State = {**w, "embed.W_E": torch.cat([w["embed.W_E"]] * 2 + [0 * w["embed.W_E"]] * 2, 1)}
    wide[BLOCK + "mlp.W_in"] = torch.zeros(4 * d, config.p).double()
    wide[BLOCK + "mlp.W_in"][d : 2 * d] = w[BLOCK + "mlp.W_in"]
    for key, factor in (("W_Q", 2.0), ("W_K", 1.0)):
        if BLOCK + "attn." + key in w:
            wide[BLOCK + "attn." + key] = torch.zeros(4 * d, 4 * d).double()
            wide[BLOCK + "attn." + key][:d, :d] = factor * w[BLOCK + "attn." + key]
    return config.replace(d=4 * d, dtype=dtype), wide


def built(config: CountingConfig, state: State) -> CountingTransformer:
    kind = getattr(torch, config.dtype)
    return CountingTransformer(config, {name: value.to(kind) for name, value in state.items()})


def read_axes(config: CountingConfig) -> slice:
    return slice(config.d // 4, config.d // 2)


def scale_read(config: CountingConfig, w: State, exponent: int, hidden: int) -> None:
    """Embeddings, where the feed-forward layer reads them, times 2^exponent; hidden units times 2^hidden."""
    axes = read_axes(config)
    w["embed.W_E"][:, axes] *= 2.0**exponent
    w[BLOCK + "mlp.W_in"][axes] *= 2.0 ** (hidden - exponent)
    w[BLOCK + "mlp.b_in"] *= 2.0**hidden
    w[BLOCK + "mlp.W_out"] *= 2.0**-hidden


def small_embeddings(name: str, exponent: int, hidden: int = -24, dtype: str = "float32") -> CountingTransformer:
    """Weight of a position times embedding underflows."""
    config, w = split(name, dtype)
    scale_read(config, w, exponent, hidden)
    return built(config, w)


def extra_axes(name: str, q: list[float], k: list[float], e: float = 1.0) -> CountingTransformer:
    """Free axes on which every embedding is `e`; queries and keys of the last ones get e q_i and e k_i."""
    config, w = split(name)
    w["embed.W_E"][:, -1] = e
    for i, (a, b) in enumerate(zip(q, k, strict=True)):
        w[BLOCK + "attn.W_Q"][-1, config.d // 4 + i] = a
        w[BLOCK + "attn.W_K"][-1, config.d // 4 + i] = b
    return built(config, w)


def extra_unit(
    name: str, into: list[float], bias: float, out: float, e: float = 1.0, dtype: str = "float32"
) -> CountingTransformer:
    """One more hidden unit, which reads free axes with embedding `e` by the weights `into`."""
    config, w = split(name, dtype)
    n, p = len(into), config.p
    w["embed.W_E"][:, -n:] = e
    w[BLOCK + "mlp.W_in"] = torch.cat([w[BLOCK + "mlp.W_in"], torch.zeros(config.d, 1).double()], 1)
    w[BLOCK + "mlp.W_in"][-n:, -1] = torch.tensor(into).double()
    w[BLOCK + "mlp.b_in"] = torch.cat([w[BLOCK + "mlp.b_in"], torch.tensor([bias]).double()])
    w[BLOCK + "mlp.W_out"] = torch.cat(
        [w[BLOCK + "mlp.W_out"], torch.full((1, config.classes), out, dtype=torch.float64)]
    )
    return built(config.replace(p=p + 1), w)


def loud_hidden(name: str, exponent: int) -> CountingTransformer:
    """Hidden units times 2^exponent, the read-out by as much less."""
    config, w = split(name)
    scale_read(config, w, exponent // 2, exponent)
    return built(config, w)


def loud_logits(name: str, exponent: int) -> CountingTransformer:
    """The read-out times 2^exponent."""
    config, w = split(name)
    for key in ("mlp.W_out", "mlp.b_out"):
        w[BLOCK + key] *= 2.0**exponent
    return built(config, w)


def huge_scores(exponent: int) -> CountingTransformer:
    """rc-dot with scores of 2^exponent and embeddings by as much smaller, where the only unit reads them. The self path
    is lost by that, but it gives the unit the same for all tokens, and the bias makes up for it."""
    config, w = split("rc-dot")
    axes = read_axes(config)
    reads = w["embed.W_E"][:, axes] @ w[BLOCK + "mlp.W_in"][axes]
    assert float(reads.max() - reads.min()) < 1e-6
    w["embed.W_E"][:, axes] *= 2.0**-exponent
    for key, by in (("attn.W_Q", exponent // 2), ("attn.W_K", exponent - exponent // 2), ("mlp.W_in", 0)):
        w[BLOCK + key] *= 2.0**by
    w[BLOCK + "mlp.b_in"] += reads.mean()
    return built(config, w)


def faint_places(variant: str, weight: int, e: int, c: int, dtype: str = "float32") -> CountingTransformer:
    """Every other position has the weight 2^weight, embeddings are 2^e and W_in is 2^c. Unit u is silent for the token
    u and else falls with n_u, so that together they tell L - count; the self path plays no part in that."""
    config = CountingConfig.parse(variant, T=T, L=L, d=T if variant.startswith("lin") else 2 * T, p=T, dtype=dtype)
    state: State = {"embed.W_E": torch.zeros(T, config.d).double()}
    state["embed.W_E"][:, :T] = 2.0**e * torch.eye(T).double()
    if variant == "lin":
        state[BLOCK + "attn.A"] = torch.full((L, L), 2.0**weight, dtype=torch.float64)
    elif variant == "lin+sftm":
        state[BLOCK + "attn.A"] = torch.full((L, L), weight * math.log(2), dtype=torch.float64).fill_diagonal_(0.0)
    else:
        assert config.d == 16  # whose root is a power of two
        state["embed.W_E"][:, -1] = 1.0
        for key, exponent in (("W_Q", weight // 2 + 2), ("W_K", weight - weight // 2)):
            state[BLOCK + "attn." + key] = torch.zeros(16, 16).double()
            state[BLOCK + "attn." + key][-1, -1] = 2.0**exponent
    step, theta = 2.0 ** (c + e + weight), 8.0  # what one more token changes, and more than it can change
    # sum over u != t of ReLU(step (theta - n_u)) = step ((T - 1) theta - (L - count)) = step (count + offset)
    offset, count = (T - 1) * theta - L, torch.arange(1, L + 1).double()
    state[BLOCK + "mlp.W_in"] = torch.zeros(config.d, T).double()
    state[BLOCK + "mlp.W_in"][:T] = -(2.0**c) * torch.eye(T).double()
    state[BLOCK + "mlp.b_in"] = torch.full((T,), step * theta, dtype=torch.float64)
    state[BLOCK + "mlp.W_out"] = (count / step).expand(T, L).clone()
    state[BLOCK + "mlp.b_out"] = -offset * count - count**2 / 2
    return built(config, state)


def faint_share(gap: float, e: int, c: int) -> CountingTransformer:
    """bos+sftm: the only unit reads the share of `$`, exp(-gap) over the count, times an embedding of 2^e."""
    config = CountingConfig.parse("bos+sftm", T=T, L=L, d=16, p=1)
    E = torch.zeros(T + 1, 16).double()
    E[:, :T] = torch.eye(T + 1, T).double()  # tokens compare themselves with each other; `$` has none of these axes,
    E[T, 9], E[:T, 10], E[T, 11] = 1.0, 1.0, 2.0**e  # is scored by axes of its own, and is read by another
    W_Q, W_K = torch.zeros(16, 16).double(), torch.zeros(16, 16).double()
    W_Q[:T, :T], W_K[:T, :T] = 4 * 60.0 * torch.eye(T).double(), torch.eye(T).double()
    W_Q[10, 9], W_K[9, 9] = -4 * (gap - 60.0), 1.0  # sqrt(d) = 4
    count = torch.arange(1, L + 1).double()
    W_in, level = torch.zeros(16, 1).double(), 1 / count
    W_in[11, 0] = 2.0**c
    unit = 2.0 ** (c + e) * math.exp(-gap)
    state = {"embed.W_E": E, BLOCK + "attn.W_Q": W_Q, BLOCK + "attn.W_K": W_K, BLOCK + "mlp.W_in": W_in}
    state |= {BLOCK + "mlp.b_in": torch.zeros(1), BLOCK + "mlp.W_out": (2 * level / unit)[None]}
    return built(config, state | {BLOCK + "mlp.b_out": -(level**2)})


def small_weights(name: str, key: str, dtype: str = "float32") -> CountingTransformer:
    """One tensor so small that its weights are denormal; the real function is kept by its neighbours."""
    least = -134 if dtype == "float32" else -1036
    config, w = split(name, dtype)
    axes, attention = read_axes(config), slice(0, config.d // 4)
    if key == "W_E":
        scale_read(config, w, least, -24 if dtype == "float32" else -100)
    elif key == "W_in":
        w["embed.W_E"][:, axes] *= 2.0**110
        w[BLOCK + "mlp.W_in"] *= 2.0**least
        for other, by in (("b_in", least + 110), ("W_out", -least - 110)):
            w[BLOCK + "mlp." + other] *= 2.0**by
    elif key == "W_out":
        w[BLOCK + "mlp.W_in"] *= 2.0**100
        w[BLOCK + "mlp.b_in"] *= 2.0**100
        w[BLOCK + "mlp.W_out"] *= 2.0**least
        w[BLOCK + "mlp.b_out"] *= 2.0 ** (least + 100)
    elif key in ("W_Q", "W_K"):
        other = {"W_Q": "W_K", "W_K": "W_Q"}[key]
        w["embed.W_E"][:, attention] *= 2.0**20
        w[BLOCK + "attn." + key] *= 2.0**least
        w[BLOCK + "attn." + other] *= 2.0 ** (-40 - least)
        if dtype == "float32":  # the other one would overflow
            w[BLOCK + "attn." + other] *= 2.0**-20
            w["embed.W_E"][:, attention] *= 2.0**10
    return built(config, w)


def loud_block() -> CountingTransformer:
    """Two layers, hidden units of the first beyond the largest float."""
    deep = behind_identity(construct("ic-lin", T=T, L=L, p=16))
    w = {name: value.double() for name, value in deep.state_dict().items()}
    w["embed.W_E"] *= 2.0**8
    w["blocks.0.mlp.W_in"] *= 2.0**124
    w["blocks.0.mlp.W_out"] *= 2.0**-124 * 2.0**-8
    return built(deep.config, w)


def faint_block(exponent: int) -> CountingTransformer:
    """Two layers; what the first passes on is 2^exponent."""
    deep = behind_identity(construct("ic-lin", T=T, L=L, p=16))
    w = {name: value.double() for name, value in deep.state_dict().items()}
    w["blocks.0.mlp.W_out"] *= 2.0**exponent
    w["blocks.1.mlp.W_in"] *= 2.0 ** (-24 - exponent)
    w["blocks.1.mlp.b_in"] *= 2.0**-24
    w["blocks.1.mlp.W_out"] *= 2.0**24
    return built(deep.config, w)


BIG = 2.0**127
NEAR = float(torch.finfo(torch.float32).max)
SMALL = ("ic-dot+sftm", "ic-bos+sftm", "ic-dot", "ic-bos", "ic-lin", "ic-lin+sftm", "rc-bos+sftm")

PLANTED = [
    # weights outside the ordinary range
    *(Planted(f"weight x embedding underflows, {name}", partial(small_embeddings, name, -148)) for name in SMALL),
    *(
        Planted(f"weight x embedding is flushed, {name}", partial(small_embeddings, name, -127), True)
        for name in (*SMALL, "rc-bos", "rc-dot")
    ),
    Planted("weight x embedding underflows, float64", lambda: small_embeddings("ic-dot", -1073, -100, "float64")),
    Planted("the residual sum is flushed", lambda: small_embeddings("ic-lin", -124), True),
    Planted("queries overflow where keys are small", lambda: extra_axes("ic-dot", [BIG], [2.0**-149], 4.0)),
    Planted("keys overflow where queries are small", lambda: extra_axes("ic-dot+sftm", [2.0**-149], [BIG], 4.0)),
    Planted("queries overflow where keys are zero", lambda: extra_axes("ic-dot", [BIG], [0.0], 4.0)),
    Planted("keys overflow where queries are zero", lambda: extra_axes("rc-bos+sftm", [0.0], [BIG], 4.0)),
    Planted("scores overflow", lambda: huge_scores(126)),
    Planted("scores overflow before sqrt d", lambda: huge_scores(124)),
    Planted("partial sums of a dead unit", lambda: extra_unit("ic-dot", [BIG, BIG, -BIG, -BIG], -1.0, 1.0)),
    Planted("a unit that no class reads", lambda: extra_unit("ic-bos+sftm", [BIG, BIG], 0.0, 0.0)),
    Planted("a dead unit at minus infinity and back", lambda: extra_unit("ic-lin", [-BIG, -BIG, BIG, BIG], -1.0, 0.0)),
    Planted("hidden units overflow", lambda: loud_hidden("ic-dot", 127)),
    Planted("hidden units overflow, softmax", lambda: loud_hidden("rc-bos+sftm", 127)),
    Planted("the sum before the bias", lambda: extra_unit("ic-dot", [2.0**127] * 2, -NEAR, 0.0)),
    Planted("b_out near the largest float", lambda: loud_logits("rc-bos", 124)),
    Planted("one order of summation", lambda: extra_unit("ic-lin", [NEAR, -NEAR, NEAR, -NEAR], -1.0, 1.0, 0.75)),
    Planted("exp underflows in lin+sftm", lambda: faint_places("lin+sftm", -151, 0, 80)),
    Planted("exp is flushed in lin+sftm", lambda: faint_places("lin+sftm", -130, 0, 60), True),
    Planted("exp underflows in lin+sftm, float64", lambda: faint_places("lin+sftm", -1076, 0, 900, "float64")),
    *(
        Planted(f"denormal {key} in {name}, {dtype}", partial(small_weights, name, key, dtype), True)
        for dtype in ("float32", "float64")
        for name in ("ic-dot", "ic-dot+sftm", "rc-bos+sftm")
        for key in ("W_E", "W_in", "W_out", "W_Q", "W_K")
    ),
    Planted("denormal A in lin", lambda: faint_places("lin", -135, 0, 60), True),
    Planted("the share of `$` underflows", lambda: faint_share(80.0, -40, 100)),
    Planted("two layers, hidden units overflow", loud_block),
    Planted("two layers, denormal read-out", lambda: faint_block(-127), True),
    Planted("two layers, weight x embedding underflows", lambda: faint_block(-148)),
    # all weights inside it; the values between them are not
    Planted("queries overflow, ordinary weights", lambda: extra_axes("ic-dot", [2.0**70], [0.0], 2.0**60)),
    Planted("keys overflow, ordinary weights", lambda: extra_axes("rc-bos+sftm", [0.0], [2.0**70], 2.0**60)),
    Planted(
        "a dead unit, ordinary weights",
        lambda: extra_unit("ic-dot", [2.0**70, 2.0**70, -(2.0**70), -(2.0**70)], -1.0, 1.0, 2.0**60),
    ),
    Planted("an unread unit, ordinary weights", lambda: extra_unit("ic-lin", [2.0**70], 0.0, 0.0, 2.0**60)),
    Planted("A x embedding is flushed, ordinary weights", lambda: faint_places("lin", -75, -60, 75), True),
    Planted("A x embedding underflows, ordinary weights", lambda: faint_places("lin", -80, -75, 80)),
    Planted("score x embedding is flushed, ordinary weights", lambda: faint_places("dot", -75, -60, 75), True),
    Planted("score x embedding underflows, ordinary weights", lambda: faint_places("dot", -80, -75, 80)),
    Planted("the score underflows, ordinary weights", lambda: faint_places("dot", -155, 0, 80)),
    Planted("the share of `$` is flushed, ordinary weights", lambda: faint_share(50.0, -60, 75), True),
    Planted("the share of `$` underflows, ordinary weights", lambda: faint_share(56.0, -75, 80)),
]


@contextmanager
def denormals_flushed(on: bool) -> Iterator[None]:
    torch.set_flush_denormal(on)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def right_in_wide_range(model: CountingTransformer) -> bool:
    """Whether every multiset is counted correctly in numpy's long double, whose exponents reach to 2^-16382."""
    config, wide = model.config, np.longdouble
    w = {name: value.double().numpy().astype(wide) for name, value in model.state_dict().items()}
    tokens = np.array(list(combinations_with_replacement(range(config.T), config.L)))
    prefix = np.full((len(tokens), config.prefix), config.T)
    x = w["embed.W_E"][np.concatenate([prefix, tokens], 1)]
    for layer in range(config.n_layers):
        own = {name.removeprefix(f"blocks.{layer}."): value for name, value in w.items()}
        if config.mixing == "lin":
            scores = np.broadcast_to(own["attn.A"], (len(x), config.L, config.L))
        else:
            q, k = x @ own["attn.W_Q"], x @ own["attn.W_K"]
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(wide(config.d))
        if config.softmax:
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores = scores / scores.sum(-1, keepdims=True)
        hidden = np.maximum((x + scores @ x) @ own["mlp.W_in"] + own["mlp.b_in"], 0)
        x = hidden @ own["mlp.W_out"] + own["mlp.b_out"]
    answers = x[:, -config.L :].argmax(-1) + config.first_count
    return bool((answers == task.histogram(torch.from_numpy(tokens)).numpy()).all())


def share_right(model: CountingTransformer, flushed: bool = False) -> float:
    """Of all positions of all sequences, run as the file is."""
    tokens = all_sequences(model.config.T, model.config.L)
    with denormals_flushed(flushed):
        return float((model.predict(tokens) == task.histogram(tokens)).double().mean())
