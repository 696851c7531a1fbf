"""The base class of every probe's result: its scalars, a flat table, JSON, and how it is displayed.

A probe's result is a frozen dataclass that inherits from `Result`. Its fields are the measured tensors. It adds
`summary`, the answer in a few scalars, and `rows`, a flat table of the numbers behind a figure.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from html import escape
from textwrap import shorten
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from counting_interp.util.errors import InterpError
from counting_interp.util.plain_json import plain
from counting_interp.util.tables import write_csv
from counting_interp.util.text import columns

if TYPE_CHECKING:
    from pandas import DataFrame

    from counting_interp.interp.figures.figure import Figure

Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Result(ABC):
    """The result of one probe on one model. Compare two results by their tensors, not with `==`."""

    probe: ClassVar[str]  # its name in the catalogue
    meanings: ClassVar[dict[str, str]] = {}  # of each scalar of the summary, printed beside it

    @property
    @abstractmethod
    def summary(self) -> dict[str, Scalar]:
        """The result in a few scalars; None where a quantity is not defined."""

    @abstractmethod
    def rows(self) -> list[dict[str, Scalar]]:
        """One flat table, every row with the same columns."""

    def table(self) -> list[tuple[str, ...]]:
        """The summary as text: name, value and meaning of each scalar."""
        return [
            (name.replace("_", " "), show(value), self.meanings.get(name, "")) for name, value in self.summary.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types without NaN or infinities: `probe`, `summary`, and `data` with every field."""
        data = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        return {"probe": self.probe, "summary": plain(self.summary), "data": data}

    def to_csv(self) -> str:
        return write_csv(self.rows())

    def to_frame(self) -> DataFrame:
        """The flat table as a pandas frame."""
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise InterpError("pandas is missing: pip install pandas, or take `rows()`") from error
        return DataFrame(self.rows())

    def plot(self) -> Figure:
        """The figure of this result, as `interp figures` draws it.

        Raises:
            InterpError: for the few results that have no figure.
        """
        from counting_interp.interp.figures import FIGURES, draw

        if type(self) not in FIGURES:
            raise InterpError(f"there is no figure of {self.probe}; `table()` and `to_frame()` show its numbers")
        return next(draw(self))

    def __init_subclass__(cls) -> None:
        cls.__repr__ = Result.__repr__  # type: ignore[method-assign]  # a dataclass would print all its tensors

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value}" for name, value, *_ in self.table())
        return f"<{self.probe}: {shorten(numbers, 160, placeholder=' ...')}>"

    def __str__(self) -> str:
        return f"{self.probe}\n{columns([(f'  {name}', *rest) for name, *rest in self.table()])}"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.probe)}</b></p>{html_table(self.table())}"


def html_table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A left-aligned table for notebooks. The first cell of each row is a header."""
    left = "style='text-align:left'"

    def line(cells: Sequence[str], names: int) -> str:
        tags = ["th"] * names + ["td"] * (len(cells) - names)
        return "".join(f"<{tag} {left}>{escape(cell)}</{tag}>" for tag, cell in zip(tags, cells, strict=True))

    lines = ([line(head, len(head))] if head else []) + [line(row, 1) for row in rows]
    return f"<table>{''.join(f'<tr>{cells}</tr>' for cells in lines)}</table>"


def scalar(value: Tensor | float) -> float | None:
    """A Python float, or None where the value is not finite."""
    number = float(value)
    return number if math.isfinite(number) else None


def show(value: Scalar) -> str:
    """A scalar as text: four significant digits, a dash for None, 0 for values of rounding size."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "0" if abs(value) < 1e-9 else f"{value:.4g}"
    return str(value)


def variance_share(values: Tensor, groups: Tensor) -> float | None:
    """Eta squared: share of the variance of `values` between `groups` (an integer per value), from 0 to 1.

    Returns:
        None where the values do not vary, up to rounding.
    """
    numbers, labels = values.double().flatten(), groups.flatten()
    if not len(numbers):
        return None
    centred = numbers - numbers.mean()
    total = centred.square().sum()
    precision = torch.finfo(values.dtype if values.is_floating_point() else torch.float32).eps
    if total <= len(numbers) * (8 * precision * numbers.abs().max()) ** 2:
        return None
    n_groups = int(labels.max()) + 1
    sums = torch.zeros(n_groups, dtype=torch.float64).index_add_(0, labels, centred)
    sizes = torch.bincount(labels, minlength=n_groups)
    return float((sums.square() / sizes.clamp(min=1)).sum() / total)
