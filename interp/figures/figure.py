"""A plotly figure that carries what its file needs: a name, a caption, and its numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from counting_interp.util.tables import write_csv

Row = Mapping[str, Any]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


class Figure(go.Figure):
    """A `go.Figure` in every respect (show it, update it, save it with plotly's own methods), and in addition:

    Attributes:
        name: of the files written from it; letters, digits and `_.+-`.
        title: a few words that stand above it.
        about: whose figure it is, such as the model's name and sizes; empty where the caption says it.
        caption: one to three sentences that say what is seen. Plain text: it is escaped where it becomes markup.
        table: the numbers drawn, one row each, all rows with the same keys.
    """

    # plotly refuses attributes that a figure's class does not have
    name: str = ""
    title: str = ""
    about: str = ""
    caption: str = ""
    table: Sequence[Row] = ()

    def __init__(self, figure: go.Figure, *, name: str, caption: str, table: Sequence[Row], title: str = "") -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a figure's name becomes a file name: letters, digits and _.+- only, got {name!r}")
        if any(list(row) != list(table[0]) for row in table):
            raise ValueError(f"the rows of the table of {name!r} have different columns")
        super().__init__(figure)
        self.name = name
        self.title = title or name.replace("-", " ")
        self.caption = caption
        self.table = table

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.to_dict(), self.name, self.caption, self.table, self.title)

    def to_csv(self) -> str:
        """The numbers, with a header line. Floats are written in full: they read back as the same bits."""
        return write_csv(self.table)


def _rebuild(figure: dict[str, Any], name: str, caption: str, table: Sequence[Row], title: str) -> Figure:
    return Figure(go.Figure(figure), name=name, caption=caption, table=table, title=title)
