"""The configuration of a counting model: the paper's six variants, what a block may have beyond them, and sizes.

`CountingConfig.parse("dot+sftm+values+4heads+norm+gelu+positions+causal", ...)` switches everything on; a name without
such endings is the paper's model.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counting_interp.models.parameters import Parameter, parameters

PAPER_MIXINGS = ("lin", "dot", "bos")
MIXINGS = PAPER_MIXINGS  # a new mixer is added here, not above
DTYPES = ("float32", "float64")
ACTIVATIONS = ("relu", "gelu")
SAMPLERS = ("paper", "published", "uniform")  # of sequences; `counting_interp.models.task` says what they draw
VARIANTS = ("lin", "lin+sftm", "dot", "dot+sftm", "bos", "bos+sftm")
SOFTMAX_SUFFIX = "+sftm"
MAX_SIZE = 4096  # of T, L, d and p: far beyond the paper's 128, far below what could exhaust a machine
MAX_PARAMETERS = 2**26


@dataclass(frozen=True)
class CountingConfig:
    """Everything that fixes a counting model but its weights.

    Args:
        mixing: `lin` (a constant L x L matrix), `dot` (attention), or `bos` (attention with `$` in front).
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
        values: learned W_V and W_O; otherwise every head passes on what it looks at as it is.
        n_heads: attention heads, of d / n_heads dimensions each.
        layer_norm: one before attention and one before the feed-forward layer, with gain and bias.
        activation: `relu` or `gelu`.
        positions: learned embeddings of the positions, added to those of the tokens.
        causal: a position sees itself and what stands before it; the true answer is the count so far.
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
        self._check_types()
        self._check_values()

    def _check_types(self) -> None:
        for name in ("T", "L", "d", "p", "n_layers", "n_classes", "seed", "n_heads"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"{name} must be an integer, got {value!r}")
        for name in ("softmax", "frozen_embeddings", "values", "layer_norm", "positions", "causal"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false, got {value!r}")

    def _check_values(self) -> None:
        if self.mixing not in MIXINGS:
            raise ValueError(f"mixing must be one of {', '.join(MIXINGS)}, got {self.mixing!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")
        for name, least in (("T", 2), ("L", 2), ("d", 1), ("p", 1)):
            value = getattr(self, name)
            if not least <= value <= MAX_SIZE:
                raise ValueError(f"{name} must be between {least} and {MAX_SIZE}, got {value}")
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
        if self.num_weights > MAX_PARAMETERS:
            raise ValueError(
                f"the model would have {self.num_weights:,} weights; at most {MAX_PARAMETERS:,} are allowed"
            )

    @classmethod
    def parse(cls, name: str, **fields: Any) -> CountingConfig:
        """`CountingConfig.parse("bos+sftm", T=32, L=10, d=45, p=2)`; the inverse of `name`."""
        variant, *rest = name.split("+")
        softmax = rest[:1] == [SOFTMAX_SUFFIX[1:]]
        if variant not in MIXINGS:
            raise ValueError(f"the model must be one of {', '.join(VARIANTS)}, got {name!r}")
        named: dict[str, Any] = {}
        for ending in rest[softmax:]:
            heads = re.fullmatch(r"([0-9]{1,4})heads", ending)
            if heads is None and ending not in ENDINGS:
                known = ", ".join(f"+{one}" for one in ("sftm", "values", "4heads", *list(ENDINGS)[1:]))
                raise ValueError(f"the model {name!r} ends in '+{ending}', which is none of {known}")
            named |= {"n_heads": int(heads[1])} if heads else ENDINGS[ending]
        return cls(mixing=variant, softmax=softmax, **{**named, **fields})

    @property
    def variant(self) -> str:
        """Which of the paper's six it is, or would be without what it has beyond them: `lin`, `bos+sftm`, ..."""
        return self.mixing + (SOFTMAX_SUFFIX if self.softmax else "")

    @property
    def extras(self) -> tuple[str, ...]:
        """What the block has that the paper's have not: `("values", "4heads", "norm")`."""
        found = {
            "values": self.values,
            f"{self.n_heads}heads": self.n_heads > 1,
            "norm": self.layer_norm,
            "gelu": self.activation == "gelu",
            "positions": self.positions,
            "causal": self.causal,
        }
        return tuple(ending for ending, is_on in found.items() if is_on)

    @property
    def is_paper_block(self) -> bool:
        """Whether the block is one of the paper's, of which formulas, kernels and proofs speak. A positive list: a
        mixer or an option that it does not know is none of them."""
        beyond = (f for f in dataclasses.fields(self) if f.name not in _OF_THE_PAPER)
        return self.mixing in PAPER_MIXINGS and all(getattr(self, f.name) == f.default for f in beyond)

    @property
    def beyond_paper(self) -> str:
        """What keeps the block from being one of the paper's, in words."""
        mixer = () if self.mixing in PAPER_MIXINGS else (f"the mixer {self.mixing}",)
        return ", ".join((*mixer, *self.extras)) or "an option"

    @property
    def name(self) -> str:
        """The variant as the paper writes it, and what the block has beyond: `bos+sftm`, `dot+sftm+values+4heads`."""
        return "+".join([self.variant, *self.extras])

    @property
    def has_bos(self) -> bool:
        return self.mixing == "bos"

    @property
    def vocab(self) -> int:
        """Rows of the embedding table: T, and one for `$` where there is one. `$` is the last row."""
        return self.T + self.has_bos

    @property
    def prefix(self) -> int:
        """Positions before the sequence: one for `$` where there is one."""
        return int(self.has_bos)

    @property
    def n_positions(self) -> int:
        """Positions inside the model: L, and what is in front."""
        return self.L + self.prefix

    @property
    def reads_positions(self) -> bool:
        """Whether the order of a sequence can matter. Where not, equal tokens get equal answers. A new mixer reads
        positions unless it is known not to."""
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
        return parameters(self)

    @property
    def num_weights(self) -> int:
        """All weights, frozen embeddings included. The paper's, one layer: T'd + mixing + dp + p + pC + C."""
        return sum(parameter.size for parameter in self.parameters)

    @property
    def num_parameters(self) -> int:
        """Trained weights, as the paper counts them."""
        return sum(parameter.size for parameter in self.parameters if parameter.trained)

    def replace(self, **changes: Any) -> CountingConfig:
        """A copy with some fields changed; the number of classes follows L unless it is given."""
        if "L" in changes and "n_classes" not in changes:
            changes["n_classes"] = changes["L"] + (self.first_count == 0)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields, without options beyond the paper's that are off: existing checkpoints keep their hash."""
        fields = dataclasses.asdict(self)
        off = {f.name: f.default for f in dataclasses.fields(self) if f.name in _BEYOND}
        return {name: value for name, value in fields.items() if name not in off or value != off[name]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> CountingConfig:
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise ValueError(f"unknown configuration field {unknown[0]!r}; known are {', '.join(sorted(known))}")
        missing = sorted({"mixing", "softmax", "T", "L", "d", "p"} - set(fields))
        if missing:
            raise ValueError(f"the configuration lacks {', '.join(missing)}")
        return cls(**fields)


_OF_THE_PAPER = {"mixing", "softmax", "T", "L", "d", "p", "n_layers", "n_classes", "frozen_embeddings", "dtype", "seed"}
# What the endings of a name beyond `+sftm` switch on; heads carry their number.
ENDINGS: dict[str, dict[str, Any]] = {
    "values": {"values": True},
    "norm": {"layer_norm": True},
    "gelu": {"activation": "gelu"},
    "positions": {"positions": True},
    "causal": {"causal": True},
}
_BEYOND = {"n_heads", *(name for fields in ENDINGS.values() for name in fields)}
