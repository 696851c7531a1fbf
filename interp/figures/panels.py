"""Panels arranged as in the paper: columns bos, dot, lin, softmax in the upper row; p on x and d on y.

Axes are logarithmic where cells fill the plane. Tiles are separate cells of one size, each with a number or letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, product
from math import log10, sqrt
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sample_colorscale, unlabel_rgb
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Panel

ROWS = (("bos+sftm", "dot+sftm", "lin+sftm"), ("bos", "dot", "lin"))
NOT_TRAINED = "#DDDDDD"
MOST_NUMBERS = 8  # columns; with more, a number does not fit into a cell
MARK = {"color": "white", "line": {"color": "#222222", "width": 0.8}}
ON_COLOURS = "on colours"  # the `meta` of traces that keep their colours on a dark page
PANEL, ROW_HEIGHT, FRAME = 200, 222, {"l": 55, "r": 10, "t": 26, "b": 45}
CellKey = tuple[str, int, int]  # model, d, p


class Panels:
    """A figure with one panel for each model among the cells.

    Attributes:
        panels: by model.
        d_values, p_values: the grid that all panels share.
    """

    def __init__(self, cells: Iterable[CellKey], T: int, *, tiles: bool = False) -> None:
        cells = list(cells)
        models = {model for model, _, _ in cells}
        self.d_values = sorted({d for _, d, _ in cells})
        self.p_values = sorted({p for _, _, p in cells})
        self.T, self.tiles = T, tiles
        others = sorted(models - {model for row in ROWS for model in row})
        every = [*ROWS, *(others[first : first + 3] for first in range(0, len(others), 3))]
        rows = [row for row in ([model for model in row if model in models] for row in every) if row] or [[]]
        self.rows, self.columns = len(rows), max(1, *map(len, rows))
        self.figure = make_subplots(
            self.rows,
            self.columns,
            specs=[[{} if j < len(row) or not row else None for j in range(self.columns)] for row in rows],
            horizontal_spacing=0.03 * 3 / self.columns,
            vertical_spacing=0.2 / self.rows,
        )
        self.panels = {
            model: Panel(self.figure, i, j) for i, row in enumerate(rows, 1) for j, model in enumerate(row, 1)
        }
        for model, panel in self.panels.items():
            panel.note(f"<b>{model}</b>", 0.5, 1, yanchor="bottom", yshift=2, font_size=style.FONT_SIZE)

    def at(self, values: Sequence[int]) -> list[Any]:
        """Coordinates of sizes on an axis. For tiles these are category names, which are equally spaced."""
        return [str(value) for value in values] if self.tiles else list(values)

    def heat(self, values: Mapping[CellKey, Any], words: Mapping[CellKey, str] | None = None, **look: Any) -> None:
        """A heat map in each panel, with the lines p = T and d = T; a cell without a value stays empty.

        Args:
            words: the hover text of a cell, after its sizes.
        """
        gap = 3 if len(self.p_values) <= MOST_NUMBERS else 1
        look |= {"xgap": gap, "ygap": gap} if self.tiles else {}
        x, y = (self.at(v) if self.tiles else edges(v) for v in (self.p_values, self.d_values))
        for model, panel in self.panels.items():
            cells = [[(model, d, p) for p in self.p_values] for d in self.d_values]
            hover = [[f"d = {d}, p = {p}" + ((words or {}).get((m, d, p), "")) for m, d, p in line] for line in cells]
            panel.add(
                go.Heatmap(
                    x=x,
                    y=y,
                    z=[[values.get(cell) for cell in line] for line in cells],
                    hovertemplate=f"{model}<br>%{{customdata}}" + ("" if words else "<br>%{z:.2f}") + "<extra></extra>",
                    customdata=hover,
                    hoverongaps=False,
                    **look,
                )
            )
            self._lines(panel)  # under the marks and letters that come later

    def text(self, words: Mapping[CellKey, tuple[str, str]]) -> None:
        """Centred text in cells, each with its colour."""
        for model, panel in self.panels.items():
            cells = [(d, p, word, ink) for (m, d, p), (word, ink) in words.items() if m == model]
            d, p, texts, inks = (list(column) for column in zip(*cells, strict=True)) if cells else ([], [], [], [])
            font = {"size": style.TINY, "color": inks}
            look = {"mode": "text", "textfont": font, "hoverinfo": "skip", "showlegend": False}
            panel.add(go.Scatter(x=self.at(p), y=self.at(d), text=texts, **look))

    def mark(self, cells: Sequence[CellKey], symbol: str, size: float, name: str) -> None:
        """Draws a symbol in cells: white with a dark rim, which is visible on any colour."""
        for model, panel in self.panels.items():
            x, y = ([cell[i] for cell in cells if cell[0] == model] for i in (2, 1))
            look = {"marker": {"symbol": symbol, "size": size, **MARK}, "hoverinfo": "skip", "meta": ON_COLOURS}
            panel.add(go.Scatter(x=x, y=y, mode="markers", name=name, **look))

    def finish(self, legend: Mapping[str, Mapping[str, Any]] | None = None, below: int = 30) -> go.Figure:
        """Sets the axes, the legend and the shared look.

        Args:
            legend: entries under the panels, each with its `marker` or `line`.
            below: height of the legend in pixels.
        """
        below = below if legend else 0
        width = style.FULL_WIDTH if self.columns == 3 else 120 + PANEL * self.columns
        frame = {**FRAME, "b": FRAME["b"] + below}
        style.apply(self.figure, width, 56 + ROW_HEIGHT * self.rows + below, margin=frame, showlegend=False)
        self.figure.update_layout(plot_bgcolor=NOT_TRAINED)
        for axes, values in ((self.figure.update_xaxes, self.p_values), (self.figure.update_yaxes, self.d_values)):
            axes(showgrid=False, showticklabels=False)
            if self.tiles:
                names = [f"<b>{value}</b>" if value == self.T else str(value) for value in values]
                between = self._between(values)
                texts = [*names, *["<b>T</b>"] * len(between)]
                axes(type="category", range=[-0.5, len(values) - 0.5])
                axes(tickvals=[*self.at(values), *between], ticktext=texts)
            else:
                limits = edges(values)
                ticks = [value for value in values if value & (value - 1) == 0] or values  # powers of two, if any
                axes(type="log", range=[log10(limits[0]), log10(limits[-1])], tickvals=ticks)
        for panel in self.panels.values():
            if not any((other.row, other.column) == (panel.row + 1, panel.column) for other in self.panels.values()):
                panel.x("p", showticklabels=True)
            if panel.column == 1:
                panel.y("d", showticklabels=True)
        self._name_lines()
        stack = [{"x": panel.axes[0], "y": panel.axes[1], "height": 240} for panel in self.panels.values()]
        if len(stack) > 1:
            self.figure.update_layout(meta={"stack": stack, "titles": {"x": "p", "y": "d"}})
        if legend:
            self.figure.update_traces(showlegend=False, selector=lambda trace: trace.type != "heatmap")
            for name, look in legend.items():
                mode = "markers" if "marker" in look else "lines"
                self.figure.add_trace(go.Scatter(x=[None], y=[None], mode=mode, name=name, showlegend=True, **look))
            self.figure.update_layout(showlegend=True, legend={**style.BELOW, "x": 0.5, "xanchor": "center"})
        return self.figure

    def _between(self, values: Sequence[int]) -> list[float]:
        """Where T lies between two tiles of an axis; nothing where it is one of them or outside."""
        smaller = sum(value < self.T for value in values)
        return [smaller - 0.5] if self.T not in values and 0 < smaller < len(values) else []

    def _lines(self, panel: Panel) -> None:
        """Lines at p = T and d = T, white with a dark rim. On tiles they run between two tiles; where T is one of the
        sizes there is no line, since its tick label is bold."""
        if self.tiles:
            for values, draw in ((self.p_values, panel.upright), (self.d_values, panel.level)):
                for boundary in self._between(values):
                    draw(boundary, color="#222222", width=1.5)
            return
        x, y = edges(self.p_values), edges(self.d_values)
        for points in (([self.T] * 2, [y[0], y[-1]]), ([x[0], x[-1]], [self.T] * 2)):
            for colour, width in (("rgba(0,0,0,0.5)", 2.0), ("white", 1.0)):
                line = {"color": colour, "width": width}
                panel.add(go.Scatter(x=points[0], y=points[1], mode="lines", line=line, hoverinfo="skip", name="T"))

    def _name_lines(self) -> None:
        """Labels the lines `p = T` and `d = T` in one panel."""
        if self.tiles or not self.panels:
            return
        last = list(self.panels.values())[-1]  # its lower left corner is the most uniform
        look = {"font_size": style.TINY, "font_color": "white", "bgcolor": "rgba(0,0,0,0.35)", "borderpad": 1}
        x, y = edges(self.p_values), edges(self.d_values)
        if x[0] < self.T < x[-1]:
            last.note("p = T", log10(self.T), 0.02, data="x", xanchor="right", yanchor="bottom", xshift=-2, **look)
        if y[0] < self.T < y[-1]:
            last.note("d = T", 0.02, log10(self.T), data="y", xanchor="left", yanchor="bottom", yshift=2, **look)


def value_panels(
    values: Mapping[CellKey, float],
    T: int,
    scale: Mapping[str, Any],
    colour_title: str,
    cells: Iterable[CellKey] | None = None,
    tiles: Callable[[float], str] | None = None,
    ends: tuple[str, str] | None = None,
    letters: Mapping[CellKey, tuple[str, str]] | None = None,
) -> Panels:
    """Heat maps of `values` on one colour axis. The caller adds marks and calls `finish`.

    Args:
        cells: all cells of the grid; by default those with a value.
        tiles: draw separate tiles, with the text that this function makes of a value, if it fits.
        ends: what the lowest and the highest colour mean, beside the colour bar.
        letters: text and colour that replace the number of a tile.
    """
    drawn = Panels(values if cells is None else cells, T, tiles=tiles is not None)
    drawn.heat(values, coloraxis="coloraxis")
    low, high = scale["zmin"], scale["zmax"]
    words: dict[CellKey, tuple[str, str]] = {}
    if tiles is not None and len(drawn.p_values) <= MOST_NUMBERS:
        shares = {key: min(1.0, max(0.0, (value - low) / (high - low))) for key, value in values.items()}
        colours = dict(zip(shares, sample_colorscale(scale["colorscale"], list(shares.values())), strict=True))
        words = {key: (tiles(value), ink_on(colours[key])) for key, value in values.items()}
    if words or letters:
        drawn.text({**words, **(letters or {})})
    bar: dict[str, Any] = {"title": {"text": colour_title, "side": "right", "font": {"size": style.FONT_SIZE}}}
    bar |= {"thickness": 14, "outlinewidth": 0, "x": 1.01}
    if ends is not None:
        less, more = " or less" * (min(values.values()) < low), " or more" * (max(values.values()) > high)
        names = [f"{style.MINUS}{-low:g}{less}<br>{ends[0]}", "0", f"{ends[1]}<br>+{high:g}{more}"]
        bar |= {"tickvals": [low, 0, high], "ticktext": names, "title": None}
    axis = {"colorscale": scale["colorscale"], "cmin": low, "cmax": high, "colorbar": bar}
    drawn.figure.update_layout(coloraxis=axis)
    return drawn


def ink_on(colour: str) -> str:
    """White or nearly black, whichever is easier to read on a colour (`#RRGGBB` or `rgb(...)`)."""
    channels = [int(colour[i : i + 2], 16) for i in (1, 3, 5)] if colour[0] == "#" else list(unlabel_rgb(colour))
    brightness = sum(weight * channel for weight, channel in zip((0.299, 0.587, 0.114), channels, strict=True))
    return "white" if brightness < 0.55 * 255 else "#222222"


def edges(values: Sequence[int]) -> list[float]:
    """The borders of cells on a logarithmic axis: half-way between neighbours, and symmetric around the outer cells."""
    if len(values) == 1:
        return [values[0] / sqrt(2), values[0] * sqrt(2)]
    inner = [sqrt(a * b) for a, b in pairwise(values)]
    return [values[0] ** 2 / inner[0], *inner, values[-1] ** 2 / inner[-1]]


def runs_per_cell(counts: Iterable[int], run: str = "run") -> str:
    """`one run per cell`, `2 runs per cell`, `1 to 5 runs per cell`."""
    least, most = min(numbers := set(counts)), max(numbers)
    number = "one" if most == 1 else str(most) if least == most else f"{least} to {most}"
    return f"{number} {run}{'' if most == 1 else 's'} per cell"


def borders(above: Mapping[tuple[int, int], bool], d_values: Sequence[int], p_values: Sequence[int]) -> str:
    """The edges between tiles (d, p) of which one is above and the other is not, as the SVG path of a shape.

    Nothing is interpolated. There is no edge beside a missing tile.
    """
    strokes = []
    for (i, d), (j, p) in product(enumerate(d_values), enumerate(p_values)):
        tile = above.get((d, p))
        right = above.get((d, p_values[j + 1])) if j + 1 < len(p_values) else None
        upper = above.get((d_values[i + 1], p)) if i + 1 < len(d_values) else None
        if None not in (tile, right) and tile != right:
            strokes.append(f"M{j + 0.5},{i - 0.5}L{j + 0.5},{i + 0.5}")
        if None not in (tile, upper) and tile != upper:
            strokes.append(f"M{j - 0.5},{i + 0.5}L{j + 0.5},{i + 0.5}")
    return "".join(strokes)
