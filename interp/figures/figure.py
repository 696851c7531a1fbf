"""A plotly figure that carries what its file needs: a name, a caption, and its numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
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

    def __init__(
        self,
        figure: go.Figure | dict[str, Any],
        *,
        name: str,
        caption: str,
        table: Sequence[Row],
        title: str = "",
        about: str = "",
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a figure's name becomes a file name: letters, digits and _.+- only, got {name!r}")
        if any(list(row) != list(table[0]) for row in table):
            raise ValueError(f"the rows of the table of {name!r} have different columns")
        super().__init__(figure)
        self.name = name
        self.title = title or name.replace("-", " ")
        self.caption = caption
        self.table = table
        self.about = about

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {name: getattr(self, name) for name in ("name", "caption", "table", "title", "about")}
        return partial(type(self), self.to_dict(), **facts), ()

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        """What Jupyter draws, and the same as HTML for pages made of notebooks: `nbconvert --to html` knows nothing of
        plotly's own format."""
        bundle = super()._repr_mimebundle_(*args, **kwargs)
        if isinstance(bundle, dict) and list(bundle) == ["application/vnd.plotly.v1+json"]:
            bundle["text/html"] = self.to_html(full_html=False, include_plotlyjs="cdn")
        return bundle

    def titled(self) -> dict[str, Any]:
        """The figure as a dictionary with its title, and whose figure it is, in lines above: for image files."""
        figure = self.to_dict()
        layout = figure["layout"]
        width = layout.get("width") or 700
        title = [f"<b>{style.plain(line)}</b>" for line in wrap(self.title, max(20, int(width / 8)))]
        about = [style.plain(line) for line in wrap(self.about, max(24, int(width / 6.2)))]
        smaller = f'<span style="font-size:{style.SMALL}px;color:{style.OWN}">'
        lines = [*title, *(f"{smaller}{line}</span>" for line in about)]
        if not lines:
            return figure
        room = 18 + 18 * len(title) + 15 * len(about)
        margin = layout.get("margin", {})
        layout["margin"] = {**margin, "t": margin.get("t", 40) + room}
        layout["height"] = (layout.get("height") or 450) + room
        place = {"x": 0, "xref": "container", "xanchor": "left", "yref": "container", "yanchor": "top"}
        place["y"] = 1 - 18 / layout["height"]  # plotly lets the first line stick out above
        layout["title"] = {"text": "<br>".join(lines), **place, "pad": {"l": 10}, "font": {"size": 14}}
        return figure

    def to_csv(self) -> str:
        """The numbers, with a header line. Floats are written in full: they read back as the same bits."""
        return write_csv(self.table)
