"""A figure and its panels.

A `Figure` is a plotly figure with a name, a title, a caption and a table of its numbers. Its panels are laid out in
rows, in pixels at print size. A drawing function adds traces, axes and notes to a panel.

Everything in a panel is positioned relative to its own axes. So a narrow page stacks the panels by moving only their
axes: `layout.meta.stack` gives their order and heights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import lcm
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.util.tables import write_csv

Row = Mapping[str, Any]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")


class Figure(go.Figure):
    """A `go.Figure` (show, update and save it with plotly's methods) with these additions:

    Attributes:
        name: the base name of its files; letters, digits and `_.+-`.
        title: a few words above the figure.
        about: the model or the runs it shows, such as name and sizes; empty if the caption says it.
        caption: one to three sentences about what it shows. Plain text: pages escape it.
        table: the numbers drawn, one row each, all rows with the same keys.
    """

    # plotly rejects attributes that the class does not declare
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
        additions = {name: getattr(self, name) for name in ("name", "caption", "table", "title", "about")}
        return partial(type(self), self.to_dict(), **additions), ()

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> Any:
        """Adds HTML to what Jupyter draws, since `nbconvert --to html` does not know plotly's format."""
        bundle = super()._repr_mimebundle_(*args, **kwargs)
        if isinstance(bundle, dict) and list(bundle) == ["application/vnd.plotly.v1+json"]:
            bundle["text/html"] = self.to_html(full_html=False, include_plotlyjs="cdn")
        return bundle

    def titled(self) -> dict[str, Any]:
        """The figure as a dictionary, with `title` and `about` as lines above it, for image files."""
        figure = self.to_dict()
        layout = figure["layout"]
        width = layout.get("width") or 700
        title = [f"<b>{style.plain(line)}</b>" for line in wrap(self.title, max(20, int(width / 8)))]
        about = [style.plain(line) for line in wrap(self.about, max(24, int(width / 6.2)))]
        smaller = f'<span style="font-size:{style.SMALL}px;color:{style.OWN}">'
        lines = [*title, *(f"{smaller}{line}</span>" for line in about)]
        if not lines:
            return figure
        room = 8 + 18 * len(title) + 15 * len(about)
        margin = layout.get("margin", {})
        layout["margin"] = {**margin, "t": margin.get("t", 40) + room}
        layout["height"] = (layout.get("height") or 450) + room
        position = {"x": 0, "xref": "container", "xanchor": "left", "yref": "container", "yanchor": "top"}
        position["y"] = 1 - 18 / layout["height"]  # the first line extends above this point
        layout["title"] = {"text": "<br>".join(lines), **position, "pad": {"l": 10}, "font": {"size": 14}}
        return figure

    def to_csv(self) -> str:
        """The table with a header line. Floats are written in full, so they read back as the same bits."""
        return write_csv(self.table)


LETTERS = "abcdefghijklmnopqrstuvwxyz"
STACKED = 220  # pixels: least height of a panel on a narrow page, where it has the full width
MARGIN = {"l": 58, "r": 16, "t": 30, "b": 48}
BAR = {"thickness": 11, "outlinewidth": 0, "tickfont": {"size": style.TINY}}


@dataclass(frozen=True)
class Panel:
    """One subplot of a figure."""

    figure: go.Figure
    row: int
    column: int

    @property
    def axes(self) -> tuple[str, str]:
        """The names of its axes in a layout, such as `xaxis2` and `yaxis2`."""
        subplot = self.figure.get_subplot(self.row, self.column)
        return subplot.xaxis.plotly_name, subplot.yaxis.plotly_name

    @property
    def references(self) -> tuple[str, str]:
        """The short names that traces and shapes use: `x2` and `y2`."""
        x, y = self.axes
        return x.replace("axis", ""), y.replace("axis", "")

    def add(self, *traces: Any) -> None:
        """Adds traces in one call, since plotly validates all traces of the figure with each call."""
        self.figure.add_traces(traces, rows=[self.row] * len(traces), cols=[self.column] * len(traces))

    def x(self, title: str | None = None, **look: Any) -> None:
        named = {} if title is None else {"title_text": title}
        self.figure.update_xaxes(row=self.row, col=self.column, **named, **look)

    def y(self, title: str | None = None, **look: Any) -> None:
        named = {} if title is None else {"title_text": title}
        self.figure.update_yaxes(row=self.row, col=self.column, **named, **look)

    def shapes(self, *shapes: Mapping[str, Any]) -> None:
        """Adds shapes in one call, since plotly copies them all with each call. Coordinates are data by default."""
        x, y = self.references
        self.figure.update_layout(shapes=[*self.figure.layout.shapes, *({"xref": x, "yref": y, **s} for s in shapes)])

    def upright(self, *x: float, **line: Any) -> None:
        """Vertical lines through the panel."""
        self.shapes(*(self.upright_shape(value, **line) for value in x))

    def upright_shape(self, x: float, **line: Any) -> dict[str, Any]:
        where = {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": f"{self.references[1]} domain"}
        return {**where, "line": {"color": "#444444", "width": 1, **line}}

    def level(self, y: float, **line: Any) -> None:
        """A horizontal line through the panel."""
        where = {"type": "line", "y0": y, "y1": y, "x0": 0, "x1": 1, "xref": f"{self.references[0]} domain"}
        self.shapes({**where, "line": {"color": "#444444", "width": 1, **line}})

    def frame(self, cells: Sequence[Sequence[int]]) -> None:
        """Dark frames around cells (y, x) of a heat map; neighbours share an edge."""
        line = {"color": "#222222", "width": 1.2}
        self.shapes(
            *(
                {"type": "rect", "x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5, "line": line}
                for y, x in cells
            )
        )

    def note(self, text: str, x: float, y: float, *, data: str = "", **look: Any) -> None:
        """Text at (x, y), from 0 to 1 across the panel. `data` (`x`, `y` or `xy`) names data coordinates."""
        references = [name if name[0] in data else f"{name} domain" for name in self.references]
        position = {"x": x, "y": y, "xref": references[0], "yref": references[1], "showarrow": False}
        self.figure.add_annotation(text=text, **{"font_size": style.SMALL, **position, **look})

    def title(self, text: str) -> None:
        look: dict[str, Any] = {"xanchor": "left", "yanchor": "bottom", "yshift": 4, "font_size": style.SMALL + 1}
        self.note(text, 0, 1, **look)


class Grid:
    """A figure with rows of panels.

    Attributes:
        figure: the plotly figure.
        panels: in reading order.
    """

    def __init__(
        self,
        rows: Sequence[int],
        heights: Sequence[int],
        *,
        width: int = style.FULL_WIDTH,
        shares: Sequence[float] | None = None,
        gap: int = 62,
        below: int = 66,
        margin: Mapping[str, int] | None = None,
        **layout: Any,
    ) -> None:
        """
        Args:
            rows: the number of panels in each row.
            heights: of the panels in each row, in pixels.
            shares: relative widths of the panels, if there is a single row and they differ.
            gap, below: pixels between two panels, and between two rows.
            layout: overrides the shared look.
        """
        columns = lcm(*rows)
        spans = [columns // number for number in rows]
        frame = {**MARGIN, **(margin or {})}
        inner = width - frame["l"] - frame["r"]
        total = sum(heights) + below * (len(rows) - 1)
        specs: list[list[Any]] = [
            [{"colspan": span} if column % span == 0 else None for column in range(columns)] for span in spans
        ]
        self.figure = make_subplots(
            len(rows),
            columns,
            specs=specs,
            column_widths=list(shares) if shares else None,
            row_heights=[height / total for height in heights],
            horizontal_spacing=gap / inner if columns > 1 else 0,
            vertical_spacing=below / total if len(rows) > 1 else 0,
        )
        style.apply(self.figure, width, total + frame["t"] + frame["b"], **{"margin": frame, **layout})
        starts = [(row, 1 + span * i) for row, span in enumerate(spans, 1) for i in range(columns // span)]
        self.panels = [Panel(self.figure, row, column) for row, column in starts]
        self._heights = [heights[row - 1] for row, _ in starts]
        stack = [
            {"x": panel.axes[0], "y": panel.axes[1], "height": max(height, STACKED)}
            for panel, height in zip(self.panels, self._heights, strict=True)
        ]
        self._stack = {"stack": stack}
        if len(self.panels) > 1:
            self.figure.update_layout(meta=self._stack)

    def __getitem__(self, number: int) -> Panel:
        return self.panels[number]

    def titles(self, *titles: str, letters: bool = False) -> None:
        for letter, panel, title in zip(LETTERS, self.panels, titles, strict=False):
            panel.title(f"<b>{letter}</b>  {title}" if letters else title)

    def scale(self, number: int, scale: Mapping[str, Any], beside: Panel | None = None, **bar: Any) -> str:
        """Adds a colour scale for heat maps and markers, with a bar to the right of the panel `beside`, if given.

        Returns:
            The name of the scale, for `coloraxis=`.
        """
        name = f"coloraxis{number if number > 1 else ''}"
        axis: dict[str, Any] = {"colorscale": scale["colorscale"], "cmin": scale["zmin"], "cmax": scale["zmax"]}
        if beside is None:
            axis["showscale"] = False
        else:
            x, y = (self.figure.layout[axis].domain for axis in beside.axes)
            where = {"x": x[1], "xpad": 8, "y": (y[0] + y[1]) / 2, "len": y[1] - y[0], "lenmode": "fraction"}
            axis["colorbar"] = {**BAR, **where, **bar}
            self.figure.update_layout(meta=self._stack)  # on a narrow page the bar is below its panel
        self.figure.update_layout({name: axis})
        return name


def sheet(rows: Sequence[str], columns: Sequence[str], **apply: Any) -> tuple[go.Figure, list[list[Panel]]]:
    """Small panels with shared axes: ticks at the left and the bottom, names of columns on top, of rows on the right.

    Args:
        apply: `width`, `height` and the layout for `style.apply`.
    """
    figure = make_subplots(
        len(rows),
        len(columns),
        horizontal_spacing=0.09 / len(columns),
        vertical_spacing=0.12 / len(rows),
        column_titles=[style.plain(name) for name in columns],
        row_titles=[style.plain(name) for name in rows],
    )
    style.apply(figure, **apply)
    figure.update_layout(meta={"least": 110 * len(columns)})  # pixels: a narrower page scrolls
    figure.update_annotations(font_size=style.SMALL + 1)
    panels = [[Panel(figure, i, j) for j in range(1, len(columns) + 1)] for i in range(1, len(rows) + 1)]
    for i, line in enumerate(panels, 1):
        for j, panel in enumerate(line, 1):
            panel.x(showticklabels=i == len(rows), tickfont_size=style.TINY)
            panel.y(showticklabels=j == 1, tickfont_size=style.TINY)
    return figure, panels
