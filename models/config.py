"""The configuration of a counting model: six variants and their sizes, validated, as one frozen value."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIXINGS = ("lin", "dot", "bos")
DTYPES = ("float32", "float64")
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

    def __post_init__(self) -> None:
        if self.n_classes is None:
            object.__setattr__(self, "n_classes", self.L)
        self._check_types()
        self._check_values()

    def _check_types(self) -> None:
        for name in ("T", "L", "d", "p", "n_layers", "n_classes", "seed"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f"{name} must be an integer, got {value!r}")
        for name in ("softmax", "frozen_embeddings"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false, got {value!r}")

    def _check_values(self) -> None:
        if self.mixing not in MIXINGS:
            raise ValueError(f"mixing must be one of {', '.join(MIXINGS)}, got {self.mixing!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
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
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be between 0 and 2**63 - 1, got {self.seed}")
        if self.num_weights > MAX_PARAMETERS:
            raise ValueError(
                f"the model would have {self.num_weights:,} weights; at most {MAX_PARAMETERS:,} are allowed"
            )

    @classmethod
    def parse(cls, name: str, **sizes: Any) -> CountingConfig:
        """`CountingConfig.parse("bos+sftm", T=32, L=10, d=45, p=2)`."""
        if name not in VARIANTS:
            raise ValueError(f"the model must be one of {', '.join(VARIANTS)}, got {name!r}")
        return cls(mixing=name.removesuffix(SOFTMAX_SUFFIX), softmax=name.endswith(SOFTMAX_SUFFIX), **sizes)

    @property
    def name(self) -> str:
        """The variant as the paper writes it: `lin`, `bos+sftm`, ..."""
        return self.mixing + (SOFTMAX_SUFFIX if self.softmax else "")

    @property
    def has_bos(self) -> bool:
        return self.mixing == "bos"

    @property
    def vocab(self) -> int:
        """Rows of the embedding table: T, and one for `$` where there is one. `$` is the last row."""
        return self.T + self.has_bos

    @property
    def n_positions(self) -> int:
        """Positions inside the model: L, and one in front for `$` where there is one."""
        return self.L + self.has_bos

    @property
    def classes(self) -> int:
        """Number of logits, always an integer."""
        assert self.n_classes is not None
        return self.n_classes

    @property
    def first_count(self) -> int:
        """The count that class 0 stands for: 1, or 0 in the published layout of L + 1 classes."""
        return 1 if self.n_classes == self.L else 0

    @property
    def block_outputs(self) -> tuple[int, ...]:
        """Output width of each block's feed-forward layer: d between blocks, the classes at the end."""
        return (self.d,) * (self.n_layers - 1) + (self.classes,)

    @property
    def num_weights(self) -> int:
        """All weights, frozen embeddings included. One layer: T'd + mixing + dp + p + pC + C."""
        mixing = self.L**2 if self.mixing == "lin" else 2 * self.d**2
        blocks = sum(mixing + self.d * self.p + self.p + self.p * out + out for out in self.block_outputs)
        return self.vocab * self.d + blocks

    @property
    def num_parameters(self) -> int:
        """Trained weights, as the paper counts them."""
        return self.num_weights - (self.vocab * self.d if self.frozen_embeddings else 0)

    def replace(self, **changes: Any) -> CountingConfig:
        """A copy with some fields changed; the number of classes follows L unless it is given."""
        if "L" in changes and "n_classes" not in changes:
            changes["n_classes"] = changes["L"] + (self.first_count == 0)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

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

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> CountingConfig:
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError(f"a configuration is a JSON object, got {type(fields).__name__}")
        return cls.from_dict(fields)
