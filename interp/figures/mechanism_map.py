"""Maps over (d, p): the mechanism of each cell, and the numbers measured there.

Letters repeat the colours, for greyscale prints and colour-blind readers. A cell whose runs disagree is paler, and a
small letter names the most frequent other mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.panels import (
    ON_COLOURS,
    CellKey,
    Panels,
    borders,
    ink_on,
    runs_per_cell,
    value_panels,
)
from counting_interp.interp.sweep.grid import Setting
from counting_interp.interp.sweep.statistics import MECHANISMS, CellMechanisms

COLOURS = {name: look.colour for name, look in style.MECHANISMS.items()}
LETTERS = {name: look.letters for name, look in style.MECHANISMS.items()}
EMPTY = "white"  # a missing cell has no colour
PALEST = 0.45  # share of the full colour where hardly any run has the main mechanism
LEVEL = 90.0  # percent


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
    """Colour: the main mechanism of a cell. Strength: its share of the runs. Lines: where accuracy crosses `LEVEL`."""
    drawn = Panels([_key(cell) for cell in cells], setting["T"], tiles=True)
    order = {name: number for number, name in enumerate(MECHANISMS)}
    scale = [
        (stop, colour)
        for name, number in order.items()
        for stop, colour in ((number / len(order), _pale(name, 0)), ((number + 1) / len(order), COLOURS[name]))
    ]  # integer part: the mechanism; fraction: its share of runs
    drawn.heat(
        {_key(cell): order[cell.main] + 0.01 + 0.98 * cell.share for cell in cells},
        {_key(cell): _words(cell) for cell in cells},
        zmin=0,
        zmax=len(order),
        colorscale=scale,
        showscale=False,
    )
    level = _borders(drawn, cells)
    drawn.text({_key(c): (letters(c), ink_on(_pale(c.main, c.share))) for c in cells if letters(c)})
    disagreeing = any(cell.share < 1 for cell in cells)
    figure = drawn.finish(_legend(level, disagreeing), below=80 if disagreeing else 62)
    figure.update_layout(plot_bgcolor=EMPTY)
    runs = runs_per_cell((cell.runs for cell in cells), "classified run")
    caption = (
        "The most frequent mechanism among the runs of each cell (of a tie, the first in the legend); "
        f"{setting.label}; {runs}. Paler: runs disagree; small letters: the other mechanism. Black lines: where the "
        f"mean accuracy crosses {LEVEL:g} %. Bold, or a grey line: p = T and d = T. "
        "Empty: not trained, or not classified."
    )
    return Figure(
        figure,
        name=f"map_mechanism_{setting.slug}",
        title="Which mechanism lives where",
        caption=caption,
        table=[cell.to_dict() for cell in cells],
        about=f"{setting.label}; {runs}",
    )


def number_map(cells: Sequence[CellMechanisms], setting: Setting, name: str) -> Figure | None:
    """One of `NUMBERS` over (p, d); None if no run has it."""
    number_of, title, words = NUMBERS[name]
    values = {_key(cell): value for cell in cells if (value := number_of(cell)) is not None}
    if not values:
        return None
    known = {model for model, _, _ in values}
    grid = [key for key in map(_key, cells) if key[0] in known]  # the same grid as on the mechanism map
    shown = {key: 100 * value for key, value in values.items()}
    figure = value_panels(shown, setting["T"], style.ACCURACY, f"{title} (%)", grid, style.whole_percent).finish()
    figure.update_layout(plot_bgcolor=EMPTY)
    about = "all verified runs" if name == "proved" else "runs that count well enough to ask"
    return Figure(
        figure,
        name=f"map_{name}_{setting.slug}",
        title=words.split(" (")[0],
        caption=f"{words}, mean over {about}; {setting.label}. Bold, or a line: p = T and d = T. Empty: no such run.",
        table=[{"model": model, "d": d, "p": p, name: value} for (model, d, p), value in values.items()],
        about=f"{setting.label}; {runs_per_cell((cell.runs for cell in cells), 'classified run')}",
    )


def letters(cell: CellMechanisms) -> str:
    """`IC`: all runs are IC. `Ig`: most are IC, most of the others gated. Empty: all are unsolved."""
    if cell.share == 1 and cell.main == "unsolved":
        return ""
    others = {name: number for name, number in cell.counts.items() if number and name != cell.main}
    if not others:
        return LETTERS[cell.main]
    return LETTERS[cell.main][0] + LETTERS[max(others, key=lambda name: others[name])][0].lower()


def _key(cell: CellMechanisms) -> CellKey:
    return cell.cell.model, cell.cell.d, cell.cell.p


def _words(cell: CellMechanisms) -> str:
    runs = ", ".join(f"{number} {name}" for name, number in cell.counts.items() if number)
    return f"<br>{runs}<br>{cell.accuracy:.1f} %"


def _pale(name: str, share: float) -> str:
    """The colour of a mechanism that this share of the runs has."""
    strength = PALEST + (1 - PALEST) * share
    channels = (int(COLOURS[name][i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - channel) * strength):02X}" for channel in channels)


def _borders(drawn: Panels, cells: Sequence[CellMechanisms]) -> bool:
    """Draws lines between tiles on different sides of `LEVEL`; returns whether there are any."""
    drawn_any = False
    for model, panel in drawn.panels.items():
        above = {(c.cell.d, c.cell.p): c.accuracy >= LEVEL for c in cells if c.cell.model == model}
        if path := borders(above, drawn.d_values, drawn.p_values):
            panel.shapes({"type": "path", "path": path, "line": {"color": "black", "width": 2}})
            drawn_any = True
    return drawn_any


def _legend(level: bool, disagreeing: bool) -> dict[str, dict[str, Any]]:
    colours = {
        name
        + (f" ({look.letters})" if look.letters not in (name, "u") else "")
        + (f": {look.words}" if look.words != name else ""): look.colour
        for name, look in ((name, style.MECHANISMS[name]) for name in MECHANISMS)
    }
    if disagreeing:
        colours["paler: runs disagree (Rg: RC, gated; Ru: RC, unsolved)"] = _pale("RC", 0.5)
    outline = {"color": "#444444", "width": 0.8}
    entries: dict[str, dict[str, Any]] = {
        text: {"marker": {"symbol": "square", "size": 12, "color": colour, "line": outline}, "meta": ON_COLOURS}
        for text, colour in colours.items()
    }
    return entries | ({f"accuracy {LEVEL:g} %": {"line": {"color": "black", "width": 2}}} if level else {})
