"""What fixes a counting model but its weights: variant, options, sizes, and every parameter declared once.

`CountingConfig.parse("dot+sftm+values+4heads+norm+gelu+positions+causal", ...)` switches every option on. A name
without such endings is one of the paper's six variants.

`CountingConfig.parameters` lists the name, axes and initialisation of every tensor. The module (`blocks`), the file
checks (`checkpoint`), the layout for training and `symmetries` follow from this list. A seed draws in the order of the
list. A first axis `d_model` reads the residual stream, a last axis `d_model` writes to it. Models of one head have no
axis for it in W_Q, W_K and A.

torch is imported when weights are drawn, not before: the command line needs configurations without it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PAPER_MIXINGS = ("lin", "dot", "bos")
MIXINGS = PAPER_MIXINGS  # a new mixer is added here, not above
DTYPES = ("float32", "float64")
ACTIVATIONS = ("relu", "gelu")
SAMPLERS = ("paper", "published", "uniform")  # see `counting_interp.models.task`
VARIANTS = ("lin", "lin+sftm", "dot", "dot+sftm", "bos", "bos+sftm")
SOFTMAX_SUFFIX = "+sftm"
MAX_SIZE = 4096  # of T, L, d and p; the paper's largest is 128
MAX_PARAMETERS = 2**26
_REQUIRED = {"mixing", "softmax", "T", "L", "d", "p"}
_OF_THE_PAPER = _REQUIRED | {"n_layers", "n_classes", "frozen_embeddings", "dtype", "seed"}
# The options that the endings of a name beyond `+sftm` switch on; `4heads` carries its number.
ENDINGS: dict[str, dict[str, Any]] = {
    "values": {"values": True},
    "norm": {"layer_norm": True},
    "gelu": {"activation": "gelu"},
    "positions": {"positions": True},
    "causal": {"causal": True},
}
_BEYOND = {"n_heads", *(name for fields in ENDINGS.values() for name in fields)}


@dataclass(frozen=True)
class Parameter:
    """One tensor.

    Attributes:
        name: as in the state dict, `blocks.0.attn.W_Q`; in its module, `W_Q`.
        axes: by the glossary of the package.
        init: `normal` or `uniform` on [-1, 1], both divided by sqrt(fan_in); `ones` or `zeros`.
        trained: False if it keeps its initial value.
    """

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    init: str
    fan_in: int = 1
    trained: bool = True

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class CountingConfig:
    """Everything that fixes a counting model but its weights.

    Args:
        mixing: `lin` (a constant L x L matrix), `dot` (attention), or `bos` (attention with the prefix `$`).
        softmax: whether the mixing matrix goes through a row-wise softmax.
        T: number of tokens in the alphabet, `$` not counted.
        L: length of a sequence, `$` not counted; at most T.
        d: embedding dimension.
        p: hidden units of each feed-forward layer.
        n_layers: 1 or 2 blocks.
        n_classes: number of logits. L (the default): class i means count i + 1. L + 1, as in the published
            code: class i means count i.
        frozen_embeddings: embeddings are drawn once from N(0, 1/d) and not trained, as in the paper's appendix.
        dtype: `float32` or `float64`.
        seed: of the initialisation.
        values: learned W_V and W_O; otherwise both are the identity.
        n_heads: attention heads, of d / n_heads dimensions each.
        layer_norm: one before attention and one before the feed-forward layer, with gain and bias.
        activation: `relu` or `gelu`.
        positions: learned position embeddings, added to the token embeddings.
        causal: a position attends to itself and earlier ones; the true answer is the count so far.

    Raises:
        ValueError: names the field and the value it received.
    """

    mixing: str
    softmax: bool
    T: int
    L: int
    d: int
    p: int
    n_layers: int = 1
    n_classes: int | None = None
    frozen_embeddings: bool = False
    dtype: str = "float32"
    seed: int = 0
    values: bool = False
    n_heads: int = 1
    layer_norm: bool = False
    activation: str = "relu"
    positions: bool = False
    causal: bool = False

    def __post_init__(self) -> None:
        if self.n_classes is None:
            object.__setattr__(self, "n_classes", self.L)
        for name in ("T", "L", "d", "p", "n_layers", "n_classes", "seed", "n_heads"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"{name} must be an integer, got {value!r}")
        for name in ("softmax", "frozen_embeddings", "values", "layer_norm", "positions", "causal"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        for name, known in (("mixing", MIXINGS), ("dtype", DTYPES), ("activation", ACTIVATIONS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        for name, least in (("T", 2), ("L", 2), ("d", 1), ("p", 1)):
            if not least <= getattr(self, name) <= MAX_SIZE:
                raise ValueError(f"{name} must be between {least} and {MAX_SIZE}, got {getattr(self, name)}")
        if self.L > self.T:
            raise ValueError(f"L must be at most T: a sequence may hold L different tokens; got L={self.L}, T={self.T}")
        if self.n_layers not in (1, 2):
            raise ValueError(f"n_layers must be 1 or 2, got {self.n_layers}")
        if self.n_classes not in (self.L, self.L + 1):
            raise ValueError(f"n_classes must be L={self.L} or L+1={self.L + 1}, got {self.n_classes}")
        if self.n_heads < 1 or self.d % self.n_heads:
            raise ValueError(f"n_heads must divide d={self.d}, got {self.n_heads}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be between 0 and 2**63 - 1, got {self.seed}")
        if (weights := self.num_weights) > MAX_PARAMETERS:
            raise ValueError(f"the model would have {weights:,} weights; at most {MAX_PARAMETERS:,} are allowed")

    @classmethod
    def parse(cls, name: str, **fields: Any) -> CountingConfig:
        """`CountingConfig.parse("bos+sftm", T=32, L=10, d=45, p=2)`; the inverse of `name`."""
        mixing, *endings = name.split("+")
        softmax = endings[:1] == [SOFTMAX_SUFFIX[1:]]
        if mixing not in MIXINGS:
            raise ValueError(f"the model must be one of {', '.join(VARIANTS)}, got {name!r}")
        options: dict[str, Any] = {}
        for ending in endings[softmax:]:
            heads = re.fullmatch(r"([0-9]{1,4})heads", ending)
            if heads is None and ending not in ENDINGS:
                known = ", ".join(f"+{word}" for word in ("sftm", "values", "4heads", *list(ENDINGS)[1:]))
                raise ValueError(f"the model {name!r} ends in '+{ending}', which is none of {known}")
            options |= {"n_heads": int(heads[1])} if heads else ENDINGS[ending]
        return cls(mixing=mixing, softmax=softmax, **{**options, **fields})

    @property
    def variant(self) -> str:
        """Mixer and softmax as the paper writes them, without options beyond the paper: `lin`, `bos+sftm`, ..."""
        return self.mixing + (SOFTMAX_SUFFIX if self.softmax else "")

    @property
    def extras(self) -> tuple[str, ...]:
        """The options beyond the paper that are on: `("values", "4heads", "norm")`."""
        options = {
            "values": self.values,
            f"{self.n_heads}heads": self.n_heads > 1,
            "norm": self.layer_norm,
            "gelu": self.activation == "gelu",
            "positions": self.positions,
            "causal": self.causal,
        }
        return tuple(ending for ending, is_on in options.items() if is_on)

    @property
    def is_paper_block(self) -> bool:
        """Whether the block is one of the paper's: formulas, kernels and proofs hold for these alone.

        This is a positive list. A mixer or an option that is not on it makes the answer False.
        """
        beyond = (f for f in dataclasses.fields(self) if f.name not in _OF_THE_PAPER)
        return self.mixing in PAPER_MIXINGS and all(getattr(self, f.name) == f.default for f in beyond)

    @property
    def beyond_paper(self) -> str:
        """What keeps the block from being one of the paper's, in words."""
        mixer = () if self.mixing in PAPER_MIXINGS else (f"the mixer {self.mixing}",)
        return ", ".join((*mixer, *self.extras)) or "an option"

    @property
    def name(self) -> str:
        """The variant and the options beyond the paper: `bos+sftm`, `dot+sftm+values+4heads`."""
        return "+".join([self.variant, *self.extras])

    @property
    def has_bos(self) -> bool:
        return self.mixing == "bos"

    @property
    def vocab(self) -> int:
        """Rows of the embedding table: T, and in `bos` models a last one for `$`."""
        return self.T + self.has_bos

    @property
    def prefix(self) -> int:
        """Positions before the sequence: one for `$` in `bos` models, else none."""
        return int(self.has_bos)

    @property
    def n_positions(self) -> int:
        """Positions inside the model: L and the prefix."""
        return self.L + self.prefix

    @property
    def reads_positions(self) -> bool:
        """Whether the order of a sequence can matter. If not, equal tokens get equal answers.

        A new mixer reads positions unless it is listed here.
        """
        return self.mixing not in ("dot", "bos") or self.positions or self.causal

    @property
    def d_head(self) -> int:
        return self.d // self.n_heads

    @property
    def classes(self) -> int:
        """Number of output classes: L, or L + 1 in the published layout."""
        assert self.n_classes is not None
        return self.n_classes

    @property
    def first_count(self) -> int:
        """The count that class 0 stands for: 1, or 0 in the published layout of L + 1 classes."""
        return 1 if self.n_classes == self.L else 0

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every tensor of the model: name, shape, initialisation."""
        modules = {"embed": _embedding(self), "pos_embed": _positional_embedding(self)}
        for layer in range(self.n_layers):
            modules |= {f"blocks.{layer}.ln1": _norm(self), f"blocks.{layer}.attn": _mixer(self)}
            modules |= {f"blocks.{layer}.ln2": _norm(self), f"blocks.{layer}.mlp": _feed_forward(self, layer)}
        return tuple(
            replace(parameter, name=f"{module}.{parameter.name}")
            for module, declared in modules.items()
            for parameter in declared
        )

    @property
    def num_weights(self) -> int:
        """All weights, frozen embeddings included. The paper's, one layer: T'd + mixing + dp + p + pC + C."""
        return sum(parameter.size for parameter in self.parameters)

    @property
    def num_parameters(self) -> int:
        """Trained weights, as the paper counts them."""
        return sum(parameter.size for parameter in self.parameters if parameter.trained)

    def replace(self, **changes: Any) -> CountingConfig:
        """A copy with some fields changed; the number of classes follows L unless it is among them."""
        if "L" in changes and "n_classes" not in changes:
            changes["n_classes"] = changes["L"] + (self.first_count == 0)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields, without options beyond the paper that are off: existing checkpoints keep their hash."""
        fields = [f for f in dataclasses.fields(self) if f.name not in _BEYOND or getattr(self, f.name) != f.default]
        return {f.name: getattr(self, f.name) for f in fields}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> CountingConfig:
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(fields) - known):
            raise ValueError(f"unknown configuration field {unknown[0]!r}; known are {', '.join(sorted(known))}")
        if missing := sorted(_REQUIRED - set(fields)):
            raise ValueError(f"the configuration lacks {', '.join(missing)}")
        return cls(**fields)


def _embedding(config: CountingConfig) -> Iterator[Parameter]:
    """Published: N(0, 1), or N(0, 1/d) if frozen."""
    frozen = config.frozen_embeddings
    yield _declare(config, "W_E", "vocab d_model", "normal", config.d if frozen else 1, trained=not frozen)


def _positional_embedding(config: CountingConfig) -> Iterator[Parameter]:
    """N(0, 1/d): at first the token embedding dominates."""
    if config.positions:
        yield _declare(config, "W_pos", "pos d_model", "normal", config.d)


def _mixer(config: CountingConfig) -> Iterator[Parameter]:
    head = "head " if config.n_heads > 1 else ""
    if config.mixing == "lin":
        yield _declare(config, "A", head + "query key", "uniform", config.L)
    elif config.mixing in ("dot", "bos"):
        yield _declare(config, "W_Q", head + "d_model d_head", "uniform", config.d)
        yield _declare(config, "W_K", head + "d_model d_head", "uniform", config.d)
    else:
        raise ValueError(f"the weights of the mixer {config.mixing} are not declared in models/config.py")
    if config.values:
        yield _declare(config, "W_V", "head d_model d_head", "uniform", config.d)
        yield _declare(config, "W_O", "head d_head d_model", "uniform", config.d)


def _feed_forward(config: CountingConfig, layer: int) -> Iterator[Parameter]:
    """The last block writes to the classes, the others to the residual stream of the next block."""
    out = "class" if layer == config.n_layers - 1 else "d_model"
    yield _declare(config, "W_in", "d_model d_mlp", "uniform", config.d)
    yield _declare(config, "b_in", "d_mlp", "uniform", config.d)
    yield _declare(config, "W_out", f"d_mlp {out}", "uniform", config.p)
    yield _declare(config, "b_out", out, "uniform", config.p)


def _norm(config: CountingConfig) -> Iterator[Parameter]:
    if config.layer_norm:
        yield _declare(config, "w", "d_model", "ones")
        yield _declare(config, "b", "d_model", "zeros")


def _declare(
    config: CountingConfig, name: str, axes: str, init: str, fan_in: int = 1, *, trained: bool = True
) -> Parameter:
    sizes = {
        "vocab": config.vocab,
        "pos": config.n_positions,
        "query": config.L,
        "key": config.L,
        "head": config.n_heads,
        "d_model": config.d,
        "d_head": config.d_head,
        "d_mlp": config.p,
        "class": config.classes,
    }
    names = tuple(axes.split())
    return Parameter(name, names, tuple(sizes[axis] for axis in names), init, fan_in, trained)


def published_initialisation(config: CountingConfig) -> dict[str, torch.Tensor]:
    """Weights by state_dict name, in float64, drawn from a private generator with the seed of `config`.

    The published code adds noise of relative size 0.001 to every occurrence of a frozen embedding. It is left out here,
    so that equal tokens have equal embeddings.
    """
    import torch

    rng = torch.Generator().manual_seed(config.seed)
    return {parameter.name: _draw(parameter, rng) for parameter in config.parameters}


def _draw(parameter: Parameter, rng: torch.Generator) -> torch.Tensor:
    import torch

    if parameter.init in ("ones", "zeros"):
        return torch.full(parameter.shape, float(parameter.init == "ones"), dtype=torch.float64)
    if parameter.init == "normal":
        drawn = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    else:
        drawn = torch.rand(parameter.shape, generator=rng, dtype=torch.float64) * 2 - 1
    return drawn / parameter.fan_in**0.5
