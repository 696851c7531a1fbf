"""The look that all figures share: colours, scales, fonts and sizes that also work in print. No global template.

Colours are Okabe and Ito's, which colour-blind readers can tell apart. Mixers: lin blue, dot vermilion, bos black (the
paper's orange for bos is too close to dot's vermilion). Scales: `SEQUENTIAL` for probabilities (0 to 1) and accuracies
(0 to 100), `SHARES` for shares of a whole, `DIVERGING` centred at zero for signed values. `PROBABILITY`, `ACCURACY` and
`signed()` fix the ranges; the data never do.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE, GREY = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#7F7F7F",
)
QUALITATIVE = (BLUE, VERMILION, ORANGE, GREEN, PURPLE, SKY, GREY, BLACK, YELLOW)
VARIANT_COLOURS = {"lin": BLUE, "dot": VERMILION, "bos": BLACK}
VARIANT_COLOURS |= {f"{mixing}+sftm": colour for mixing, colour in tuple(VARIANT_COLOURS.items())}


@dataclass(frozen=True)
class Look:
    """How a mechanism is shown, on paper, in pages and in scripts.

    Attributes:
        words: its meaning, for legends.
        letters: in the cells of a map.
        colour, dark: of areas and lines, on a light and on a dark page.
        text: the colour of text on white.
        on, on_dark: the colour of text on such an area.
    """

    words: str
    letters: str
    colour: str
    dark: str
    text: str
    on: str = "#FFFFFF"
    on_dark: str = "#0B0D10"


MECHANISMS = {
    "RC": Look("relation-based", "R", "#0072B2", "#3F9BD6", "#0072B2"),
    "IC": Look("inventory-based", "IC", "#E69F00", "#E69F00", "#9A5B00", on="#1A1F27"),
    "gated": Look("it takes the match and the token", "G", "#009E73", "#1FAE84", "#00805F"),
    "mixed": Look("mixed", "M", "#CC79A7", "#D58BB4", "#9C4F7A", on="#1A1F27"),
    "unsolved": Look("unsolved", "u", "#BDBDBD", "#5A626D", "#6B7280", on="#1A1F27", on_dark="#E6E9EE"),
}
MINUS = "\N{MINUS SIGN}"
OWN = "#5B6472"  # the unmodified model, beside interventions on it

VARIANT_SYMBOLS = {"lin": "triangle-up", "dot": "square", "bos": "circle"}

SEQUENTIAL = "Viridis"
SPREAD = "Oranges"  # standard deviations: zero is white
SHARES = "Blues"  # shares of a whole, mostly zero: zero is white
DIVERGING = "RdBu"
DIFFERENCE = "PuOr"  # of two sweeps, as the paper draws them

PROBABILITY: dict[str, Any] = {"zmin": 0, "zmax": 1, "colorscale": SEQUENTIAL}
ACCURACY: dict[str, Any] = {"zmin": 0, "zmax": 100, "colorscale": SEQUENTIAL}

BELOW = {"orientation": "h", "yref": "container", "y": 0.005, "yanchor": "bottom", "x": 0}  # of a legend

FULL_WIDTH = 720  # pixels at 96 dpi: two columns of a paper (7.5 inches)
FONT = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"
FONT_SIZE, SMALL, TINY = 13, 11, 9  # at 6.75 inches the smallest is 6 points


# Title sizes are in each figure's template, since `update_xaxes(title="...")` replaces a styled title.
_AXIS: dict[str, Any] = {"title": {"font": {"size": FONT_SIZE}, "standoff": 6}}
_BAR: dict[str, Any] = {"colorbar": {"title": {"font": {"size": FONT_SIZE}}, "tickfont": {"size": SMALL}}}
_TEMPLATE: dict[str, Any] = {
    "layout": {"xaxis": _AXIS, "yaxis": _AXIS, "title": {"x": 0.5, "font": {"size": FONT_SIZE}}},
    "data": {"heatmap": [_BAR], "scatter": [{"marker": _BAR}]},
}


def signed(largest: float) -> dict[str, Any]:
    """A diverging scale from -largest to largest, zero in the middle."""
    return {"zmin": -largest, "zmax": largest, "zmid": 0, "colorscale": DIVERGING}


def apply(figure: go.Figure, width: int, height: int, **layout: Any) -> go.Figure:
    """Gives `figure` (subplots included) the shared look, in place; `layout` overrides it."""
    figure.update_layout(
        template=_TEMPLATE,
        width=width,
        height=height,
        font={"family": FONT, "size": FONT_SIZE, "color": "#222222"},
        margin={"l": 60, "r": 20, "t": 40, "b": 58},
        paper_bgcolor="white",
        plot_bgcolor="white",
        legend={"font_size": SMALL, "bgcolor": "rgba(255,255,255,0.8)"},
    )
    axis = {
        "showline": True,
        "linecolor": "#444444",
        "mirror": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": "#444444",
        "tickfont_size": SMALL,
        "automargin": True,
        "gridcolor": "#E5E5E5",
        "zeroline": False,
    }
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_annotations(font_size=FONT_SIZE)
    figure.update_layout(**layout)
    return figure


def height_for_legend(entries: int, least: int) -> int:
    """The height at which no entry of a vertical legend is cut off, but at least `least`."""
    return max(least, 130 + 19 * entries)


def whole_percent(value: float) -> str:
    """A percentage without decimals; only a full 100 % is `100`."""
    return "100" if value >= 100 - 1e-9 else str(min(99, round(value)))


def plain(text: str) -> str:
    """`text` escaped for a title or label, where plotly would interpret some HTML."""
    return html.escape(text, quote=False)
