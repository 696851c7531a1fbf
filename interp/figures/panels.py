"""The paper's arrangement: columns bos, dot, lin, the upper row with softmax; p on x and d on y, both logarithmic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from math import log10, sqrt
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sample_colorscale, unlabel_rgb
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.grid import Panel

ROWS = (("bos+sftm", "dot+sftm", "lin+sftm"), ("bos", "dot", "lin"))
NOT_TRAINED = "#DDDDDD"
MOST_NUMBERS = 8  # columns; in more there is no room for a number in a cell
MARK = {"color": "white", "line": {"color": "#222222", "width": 0.8}}
ON_COLOURS = "on colours"  # the `meta` of traces whose own colours stay as they are on a dark page
PANEL, ROW_HEIGHT, FRAME = 200, 222, {"l": 55, "r": 10, "t": 26, "b": 45}
Place = tuple[str, int, int]  # model, d, p


class Panels:
    """A figure with one panel for each model that has a value; the others leave no empty frame.

    Attributes:
        places: row and column of each model's panel.
        d_values, p_values: the grid that all panels share.
    """

    def __init__(self, there: Iterable[Place], T: int) -> None:
        there = list(there)
        models = {model for model, _, _ in there}
        self.d_values = sorted({d for _, d, _ in there})
        self.p_values = sorted({p for _, _, p in there})
        others = sorted(models - {model for row in ROWS for model in row})
        every = [*ROWS, *(others[first : first + 3] for first in range(0, len(others), 3))]
        rows = [row for row in ([model for model in row if model in models] for row in every) if row]
        self.columns = max(map(len, rows), default=1)
        self.places = {model: (i, j) for i, row in enumerate(rows, 1) for j, model in enumerate(row, 1)}
        self.rows, self._T = max(1, len(rows)), T
        specs: list[list[Any]] = [[{} if j < len(row) else None for j in range(self.columns)] for row in rows] or [[{}]]
        self.figure = make_subplots(
            self.rows,
            self.columns,
            specs=specs,
            horizontal_spacing=0.03 * 3 / self.columns,
            vertical_spacing=0.2 / self.rows,
        )
        self.panels = {model: Panel(self.figure, *place) for model, place in self.places.items()}
        for model, panel in self.panels.items():
            panel.note(f"<b>{model}</b>", 0.5, 1, yanchor="bottom", yshift=2, font_size=style.FONT_SIZE)

    def heat(
        self,
        values: Mapping[Place, Any],
        words: Mapping[Place, str] | None = None,
        tiles: Callable[[float], str] | None = None,
        **look: Any,
    ) -> None:
        """A heat map in each panel, with the lines p = T and d = T; a cell without a value stays empty.

        Args:
            words: what hovering says of a cell, after its sizes.
            tiles: draws cells apart from each other, with this text of their values where there is room. No line
                goes through them: an axis says which cells have p = T or d = T.
        """
        if tiles is not None:
            look |= {"xgap": 3, "ygap": 3}
        for model, (row, column) in self.places.items():
            cells = [[(model, d, p) for p in self.p_values] for d in self.d_values]
            hover = [[f"d = {d}, p = {p}" + ((words or {}).get((m, d, p), "")) for m, d, p in line] for line in cells]
            heat = go.Heatmap(
                x=edges(self.p_values),
                y=edges(self.d_values),
                z=[[values.get(cell) for cell in line] for line in cells],
                hovertemplate=f"{model}<br>%{{customdata}}" + ("" if words else "<br>%{z:.2f}") + "<extra></extra>",
                customdata=hover,
                **look,
            )
            self.figure.add_trace(heat, row, column)
            if tiles is None or self._T not in self.d_values + self.p_values:  # else a line would cross the numbers
                self._lines(row, column)  # under the marks and letters that come later

    def numbers(self, values: Mapping[Place, float], text: Callable[[float], str], scale: Mapping[str, Any]) -> None:
        """The values of cells in their middle, in the ink that is easier to read on their colour."""
        low, high = scale["zmin"], scale["zmax"]
        for model, (row, column) in self.places.items():
            here = [(d, p, value) for (other, d, p), value in values.items() if other == model]
            shares = [min(1.0, max(0.0, (value - low) / (high - low))) for _, _, value in here]
            inks = [ink_on(sample_colorscale(scale["colorscale"], share)[0]) for share in shares]
            trace = go.Scatter(
                x=[p for _, p, _ in here],
                y=[d for d, _, _ in here],
                text=[text(value) for _, _, value in here],
                mode="text",
                textfont={"size": style.TINY, "color": inks},
                hoverinfo="skip",
                showlegend=False,
            )
            self.figure.add_trace(trace, row, column)

    def mark(self, places: Sequence[Place], symbol: str, size: float, name: str) -> None:
        """Put a symbol into the middle of cells: white with a dark rim, which shows on any colour."""
        marker = {"symbol": symbol, "size": size, **MARK}
        for model, (row, column) in self.places.items():
            here = [(d, p) for other, d, p in places if other == model]
            x, y = [p for _, p in here], [d for d, _ in here]
            points = go.Scatter(x=x, y=y, mode="markers", marker=marker, name=name, hoverinfo="skip", meta=ON_COLOURS)
            self.figure.add_trace(points, row, column)

    def finish(self, below: int = 0) -> go.Figure:
        """Axes, and the look that all figures share; `below`: pixels under the axes."""
        width = style.FULL_WIDTH if self.columns == 3 else 120 + PANEL * self.columns
        frame = {**FRAME, "b": FRAME["b"] + below}
        style.apply(self.figure, width, 56 + ROW_HEIGHT * self.rows + below, margin=frame, showlegend=False)
        self.figure.update_layout(plot_bgcolor=NOT_TRAINED)
        for axes, values in ((self.figure.update_xaxes, self.p_values), (self.figure.update_yaxes, self.d_values)):
            limits = edges(values)
            log_range = [log10(limits[0]), log10(limits[-1])]
            ticks = [value for value in values if value & (value - 1) == 0] or values  # powers of two, if there are any
            drawn = any(trace.name == "T" for trace in self.figure.data)
            names = [f"<b>T</b> = {tick}" if tick == self._T and not drawn else str(tick) for tick in ticks]
            axes(type="log", range=log_range, tickvals=ticks, ticktext=names, showgrid=False)
            axes(showticklabels=False)
        lowest = {column: max(r for r, c in self.places.values() if c == column) for _, column in self.places.values()}
        for column, row in lowest.items():
            self.figure.update_xaxes(row=row, col=column, title_text="p", showticklabels=True)
        self.figure.update_yaxes(col=1, title_text="d", showticklabels=True)
        self._name_lines()
        stack = [{"x": panel.axes[0], "y": panel.axes[1], "height": 240} for panel in self.panels.values()]
        if len(stack) > 1:
            self.figure.update_layout(meta={"stack": stack, "titles": {"x": "p", "y": "d"}})
        return self.figure

    def _name_lines(self) -> None:
        """`p = T` and `d = T` at the lines of one panel."""
        if not self.panels:
            return
        if not any(trace.name == "T" for trace in self.figure.data):
            return
        last = list(self.panels.values())[-1]  # whose lower left corner is the most uniform
        look = {"font_size": style.TINY, "font_color": "white", "bgcolor": "rgba(0,0,0,0.35)", "borderpad": 1}
        x, y = edges(self.p_values), edges(self.d_values)
        if x[0] < self._T < x[-1]:
            last.note("p = T", log10(self._T), 0.02, data="x", xanchor="right", yanchor="bottom", xshift=-2, **look)
        if y[0] < self._T < y[-1]:
            last.note("d = T", 0.02, log10(self._T), data="y", xanchor="left", yanchor="bottom", yshift=2, **look)

    def _lines(self, row: int, column: int) -> None:
        """White with a dark rim, so that it shows on any colour."""
        x, y = edges(self.p_values), edges(self.d_values)
        for points in (([self._T] * 2, [y[0], y[-1]]), ([x[0], x[-1]], [self._T] * 2)):
            for colour, width in (("rgba(0,0,0,0.5)", 2.0), ("white", 1.0)):
                line = {"color": colour, "width": width}
                path = go.Scatter(x=points[0], y=points[1], mode="lines", line=line, hoverinfo="skip", name="T")
                self.figure.add_trace(path, row, column)


def legend_below(figure: go.Figure, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """A legend under the panels, of names with their `marker` or `line`; `Panels.finish(below=...)` makes room."""
    figure.update_traces(showlegend=False, selector=lambda trace: trace.type != "heatmap")
    for name, look in entries.items():
        mode = "markers" if "marker" in look else "lines"
        figure.add_trace(go.Scatter(x=[None], y=[None], mode=mode, name=name, showlegend=True, **look))
    place = {"orientation": "h", "x": 0.5, "xanchor": "center", "yref": "container", "y": 0.01, "yanchor": "bottom"}
    figure.update_layout(showlegend=True, legend=place)


def value_panels(
    values: Mapping[Place, float],
    T: int,
    scale: Mapping[str, Any],
    colour_title: str,
    there: Iterable[Place] | None = None,
    tiles: Callable[[float], str] | None = None,
    ends: tuple[str, str] | None = None,
) -> Panels:
    """Heat maps of `values` on one colour axis, to be marked and finished.

    Args:
        there: all cells that have something.
        tiles: see `Panels.heat`.
        ends: what the lowest and the highest colour mean, in words beside the bar.
    """
    drawn = Panels(values if there is None else there, T)
    drawn.heat(values, tiles=tiles, coloraxis="coloraxis")
    if tiles is not None and len(drawn.p_values) <= MOST_NUMBERS:
        drawn.numbers(values, tiles, scale)
    bar = {
        "title": {"text": colour_title, "side": "right", "font": {"size": style.FONT_SIZE}},
        "thickness": 14,
        "outlinewidth": 0,
        "x": 1.01,
    }
    if ends is not None:
        low, high = scale["zmin"], scale["zmax"]
        bar |= {
            "tickvals": [low, low / 2, 0, high / 2, high],
            "ticktext": [f"{low:g}<br>{ends[0]}", f"{low / 2:g}", "0", f"+{high / 2:g}", f"{ends[1]}<br>+{high:g}"],
        }
    axis = {"colorscale": scale["colorscale"], "cmin": scale["zmin"], "cmax": scale["zmax"], "colorbar": bar}
    drawn.figure.update_layout(coloraxis=axis)
    return drawn


def ink_on(colour: str) -> str:
    """White or nearly black, whichever is easier to read on a colour (`#RRGGBB` or `rgb(...)`)."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)] if colour[0] == "#" else list(unlabel_rgb(colour))
    brightness = sum(weight * part for weight, part in zip((0.299, 0.587, 0.114), parts, strict=True))
    return "white" if brightness < 0.55 * 255 else "#222222"


def edges(values: Sequence[int]) -> list[float]:
    """The borders of cells on a logarithmic axis: half-way between neighbours, and as far outside at the ends."""
    if len(values) == 1:
        return [values[0] / sqrt(2), values[0] * sqrt(2)]
    inner = [sqrt(a * b) for a, b in pairwise(values)]
    return [values[0] ** 2 / inner[0], *inner, values[-1] ** 2 / inner[-1]]


def runs_per_cell(counts: Iterable[int], run: str = "run") -> str:
    """`one run per cell`, `2 runs per cell`, `1 to 5 runs per cell`."""
    least, most = min(numbers := set(counts)), max(numbers)
    number = "one" if most == 1 else str(most) if least == most else f"{least} to {most}"
    return f"{number} {run}{'' if most == 1 else 's'} per cell"


def borders(
    above: Mapping[tuple[int, int], bool], d_values: Sequence[int], p_values: Sequence[int]
) -> tuple[list[float | None], list[float | None]]:
    """The edges between two cells (d, p) of which one is above and the other is not, as x and y of one path with gaps.
    Nothing is interpolated, and beside a missing cell there is no edge."""
    x_edges, y_edges = edges(p_values), edges(d_values)
    x: list[float | None] = []
    y: list[float | None] = []
    for i, (left, right) in enumerate(pairwise(p_values), 1):
        for first, last in _stretches([_differ(above, (d, left), (d, right)) for d in d_values]):
            x += [x_edges[i], x_edges[i], None]
            y += [y_edges[first], y_edges[last], None]
    for i, (lower, upper) in enumerate(pairwise(d_values), 1):
        for first, last in _stretches([_differ(above, (lower, p), (upper, p)) for p in p_values]):
            x += [x_edges[first], x_edges[last], None]
            y += [y_edges[i], y_edges[i], None]
    return x, y


def _differ(above: Mapping[tuple[int, int], bool], one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one in above and other in above and above[one] != above[other]


def _stretches(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Where the flags are true without a gap: each stretch from its first place to that behind its last."""
    found, place = [], 0
    for flag, group in groupby(flags):
        length = len(list(group))
        found += [(place, place + length)] if flag else []
        place += length
    return found
