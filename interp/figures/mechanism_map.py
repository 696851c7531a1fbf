"""Which mechanism lives where in (d, p), and what was measured there.

A letter says once more what a colour says, for grey prints and for colour-blind readers.
A cell whose runs disagree is paler, and small letters say what its other runs do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.panels import (
    ON_COLOURS,
    Panels,
    Place,
    borders,
    ink_on,
    legend_below,
    runs_per_cell,
    value_panels,
)
from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.statistics import MECHANISMS, CellMechanisms

COLOURS = {name: look.colour for name, look in style.MECHANISMS.items()}
LETTERS = {name: look.letters for name, look in style.MECHANISMS.items()}
EMPTY = "white"  # what is missing is empty, not a shade of something
PALEST = 0.45  # of the full colour, where hardly any run counts by the main mechanism
LEVELS = ((90.0, "solid"),)


def _share(name: str) -> Callable[[CellMechanisms], float | None]:
    return lambda cell: cell.shares.get(name)


NUMBERS: dict[str, tuple[Callable[[CellMechanisms], float | None], str, str]] = {
    "share-RC": (_share("RC"), "share of RC", "Share of the count that is relation-based"),
    "share-IC": (_share("IC"), "share of IC", "Share of the count that is inventory-based"),
    "share-gated": (_share("gated"), "share gated", "Share of the count that is gated"),
    "proved": (
        lambda cell: cell.proved,
        "share of cells proved",
        "Share of each model's cells (token and count, for lin also the position) that are proved on every sequence",
    ),
}


def mechanism_map(cells: Sequence[CellMechanisms], setting: Setting) -> Figure:
    """The main mechanism of each cell by colour, the share of runs by its strength, accuracy by lines."""
    drawn = Panels([_place(cell) for cell in cells], setting["T"])
    order = {name: number for number, name in enumerate(MECHANISMS)}
    drawn.heat(
        {_place(cell): order[cell.main] + 0.01 + 0.98 * cell.share for cell in cells},
        {_place(cell): _words(cell) for cell in cells},
        zmin=0,
        zmax=len(order),
        colorscale=_colours(),
        showscale=False,
    )
    levels = _borders(drawn, {_place(cell): cell.accuracy for cell in cells})
    _letters(drawn, cells)
    disagreeing = any(cell.share < 1 for cell in cells)
    figure = drawn.finish(below=80 if disagreeing else 62)
    figure.update_layout(plot_bgcolor=EMPTY)
    _legend(figure, levels, disagreeing)
    runs = runs_per_cell((cell.runs for cell in cells), "classified run")
    caption = (
        "The mechanism that most runs of a cell count by (of equally frequent ones the first of the legend); "
        f"{setting.label}; {runs}. Paler: runs disagree; small letters: what the others do. Lines between cells on "
        "both sides of a mean accuracy of 90 %. Lines across: p = T and d = T. "
        "Empty: not trained, or not classified."
    )
    table = [cell.to_dict() for cell in cells]
    name, title = f"map_mechanism_{setting.slug}", "Which mechanism lives where"
    drawing = Figure(figure, name=name, title=title, caption=caption, table=table)
    drawing.about = f"{setting.label}; {runs}"
    return drawing


def number_map(cells: Sequence[CellMechanisms], setting: Setting, name: str) -> Figure | None:
    """One of `NUMBERS` over (p, d); None where no run has it."""
    of, title, words = NUMBERS[name]
    values = {_place(cell): value for cell in cells if (value := of(cell)) is not None}
    if not values:
        return None
    known = {model for model, _, _ in values}
    there = [place for place in map(_place, cells) if place[0] in known]  # the grid of the mechanism map
    figure = value_panels(values, setting["T"], style.PROBABILITY, title, there).finish()
    figure.update_layout(plot_bgcolor=EMPTY)
    about = "all verified runs" if name == "proved" else "runs that count well enough to ask"
    caption = f"{words}, mean over {about}; {setting.label}. Lines: p = T and d = T. Empty: no such run."
    table = [{"model": model, "d": d, "p": p, name: value} for (model, d, p), value in values.items()]
    drawing = Figure(
        figure, name=f"map_{name}_{setting.slug}", title=words.split(" (")[0], caption=caption, table=table
    )
    drawing.about = f"{setting.label}; {runs_per_cell((cell.runs for cell in cells), 'classified run')}"
    return drawing


def letters(cell: CellMechanisms) -> str:
    """`R` where all runs are RC, `Rg` where next to RC most are gated; nothing where all are unsolved."""
    if cell.share == 1 and cell.main == "unsolved":
        return ""
    others = {name: number for name, number in cell.counts.items() if number and name != cell.main}
    return LETTERS[cell.main] + (LETTERS[max(others, key=lambda name: others[name])][0].lower() if others else "")


def _place(cell: CellMechanisms) -> Place:
    return cell.cell.model, cell.cell.d, cell.cell.p


def _words(cell: CellMechanisms) -> str:
    runs = ", ".join(f"{number} {name}" for name, number in cell.counts.items() if number)
    return f"<br>{runs}<br>{cell.accuracy:.1f} %"


def _colours() -> list[tuple[float, str]]:
    """A scale on which the mechanism is the integer part and its share of runs the rest."""
    scale, n = [], len(COLOURS)
    for number, name in enumerate(MECHANISMS):
        scale += [(number / n, _pale(COLOURS[name], 0)), ((number + 1) / n, COLOURS[name])]
    return scale


def _pale(colour: str, share: float) -> str:
    """The colour of a mechanism that a share of the runs count by."""
    strength = PALEST + (1 - PALEST) * share
    return "#" + "".join(f"{round(255 - (255 - part) * strength):02X}" for part in _channels(colour))


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _ink(cell: CellMechanisms) -> str:
    """What is easier to read on the colour of a cell."""
    return ink_on(_pale(COLOURS[cell.main], cell.share))


def _letters(drawn: Panels, cells: Sequence[CellMechanisms]) -> None:
    size = 7 if max(len(drawn.d_values), len(drawn.p_values)) > 10 else 10
    for model, (row, column) in drawn.places.items():
        here = [cell for cell in cells if cell.cell.model == model and letters(cell)]
        annotation = go.Scatter(
            x=[cell.cell.p for cell in here],
            y=[cell.cell.d for cell in here],
            text=[letters(cell) for cell in here],
            mode="text",
            textfont={"size": size, "color": [_ink(cell) for cell in here]},
            hoverinfo="skip",
            showlegend=False,
        )
        drawn.figure.add_trace(annotation, row, column)


def _borders(drawn: Panels, accuracy: dict[Place, float]) -> set[float]:
    """Lines between cells on both sides of `LEVELS`, black with a rim; returns the levels that have one."""
    found = set()
    for model, (row, column) in drawn.places.items():
        here = {(d, p): value for (other, d, p), value in accuracy.items() if other == model}
        for level, dash in LEVELS:
            above = {place: value >= level for place, value in here.items()}
            x, y = borders(above, drawn.d_values, drawn.p_values)
            if not x:
                continue
            found.add(level)
            for colour, width in (("white", 2.6), ("black", 1.2)):
                line = {"color": colour, "width": width, "dash": dash if colour == "black" else "solid"}
                look = {"line": line, "showlegend": False, "hoverinfo": "skip", "meta": ON_COLOURS}
                drawn.figure.add_trace(go.Scatter(x=x, y=y, mode="lines", name=f"{level:g} %", **look), row, column)
    return found


def _legend(figure: go.Figure, levels: set[float], disagreeing: bool) -> None:
    colours = {
        f"{name} ({LETTERS[name]})" + (f": {words}" if words != name else ""): COLOURS[name]
        for name, words in MECHANISMS.items()
    }
    if disagreeing:
        colours["paler: runs disagree (Rg: RC, and gated)"] = _pale(COLOURS["RC"], 0.5)
    outline = {"color": "#444444", "width": 0.8}
    entries: dict[str, dict[str, Any]] = {
        text: {"marker": {"symbol": "square", "size": 12, "color": colour, "line": outline}}
        for text, colour in colours.items()
    }
    for level, dash in LEVELS:
        if level in levels:
            entries[f"accuracy {level:.0f} %"] = {"line": {"color": "black", "width": 1.2, "dash": dash}}
    legend_below(figure, entries)
