"""Several drawings as one figure, as the paper prints them: panels in rows, each with a letter and a title.

Every drawing keeps its own axes and colour scales, and in its legend what no panel before it has said.
Its plotting area, which is the unit square in plotly's "paper" coordinates, becomes a rectangle of the new figure, and
whatever is placed in these coordinates moves along; what is placed in data coordinates only needs the new names of its
axes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure

WIDTH = 1080  # pixels: one and a half times the width of a page, so that type is small in print but readable
TITLE, GAP = 26, 12  # pixels above a panel for its title, and between panels
COLOUR_BAR = 74  # pixels right of a panel
_AXIS = re.compile(r"^([xy])axis(\d*)$")
_REFERENCE = re.compile(r"^([xy])(\d*)( domain)?$")


@dataclass(frozen=True)
class Panel:
    """A drawing in a composite: its title, and its share of the width of its row."""

    drawing: Figure
    title: str
    share: float = 1.0


def composite(name: str, rows: Sequence[Sequence[Panel]], heights: Sequence[int]) -> Figure:
    """Rows of panels, each row so many pixels high. The table has the rows of all, with the panel's letter."""
    total = sum(heights) + (TITLE + GAP) * len(rows)
    layout: dict[str, Any] = {"annotations": [], "shapes": []}
    traces: list[dict[str, Any]] = []
    table: list[dict[str, Any]] = []
    captions: list[str] = []
    top, number = 0, 0
    for row, height in zip(rows, heights, strict=True):
        left, room = 0.0, WIDTH - GAP * (len(row) - 1)
        for panel in row:
            width = room * panel.share / sum(other.share for other in row)
            box = _Box(left, total - top - TITLE - height, width, height, total, number)
            box.add(panel.drawing.to_dict(), layout, traces)
            letter = chr(ord("a") + number)
            layout["annotations"].append(_title(f"<b>{letter}</b>  {panel.title}", left, total - top, total))
            table += [{"panel": letter, **entry} for entry in panel.drawing.table]
            captions.append(f"({letter}) {panel.title}: {panel.drawing.caption}")
            left, number = left + width + GAP, number + 1
        top += TITLE + height + GAP
    layout |= {"width": WIDTH, "height": total, "margin": dict.fromkeys("lrtb", 0)}
    columns = dict.fromkeys(column for entry in table for column in entry)
    filled = [{column: entry.get(column) for column in columns} for entry in table]
    return Figure(go.Figure({"data": traces, "layout": layout}), name=name, caption=" ".join(captions), table=filled)


def _title(text: str, left: float, top: float, total: float) -> dict[str, Any]:
    place = {"x": (left + 4) / WIDTH, "y": (top - 2) / total, "xref": "paper", "yref": "paper"}
    return {
        **place,
        "text": text,
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "top",
        "font_size": style.FONT_SIZE,
    }


class _Box:
    """The rectangle of one drawing, in pixels from the left and from the bottom of the whole figure."""

    def __init__(self, left: float, bottom: float, width: float, height: float, total: float, number: int) -> None:
        self.left, self.bottom, self.width, self.height, self.total = left, bottom, width, height, total
        self.number = number

    def add(self, figure: Mapping[str, Any], layout: dict[str, Any], traces: list[dict[str, Any]]) -> None:
        """Move a drawing into a figure that is being put together."""
        old = figure["layout"]
        self.margin = {"l": 60, "r": 20, "t": 40, "b": 58, **old.get("margin", {})}
        if _has_colour_bar(figure):
            self.margin["r"] = max(self.margin["r"], COLOUR_BAR)
        offset = {axis: sum(1 for key in layout if (m := _AXIS.match(key)) and m[1] == axis) for axis in "xy"}
        self.offset = offset
        for key, value in old.items():
            if match := _AXIS.match(key):
                layout[self._name(match[1], match[2], "axis")] = self._axis(match[1], value)
            elif key.startswith("coloraxis"):
                bar = self._bar(value.get("colorbar", {}))
                layout[f"coloraxis{100 * self.number + int(key[9:] or 1)}"] = {**value, "colorbar": bar}
        for kind in ("annotations", "shapes"):
            layout[kind] += [self._placed(one) for one in old.get(kind, ())]
        legend = self._legend(old.get("legend", {}), layout)
        for key in ("barmode", "font", "paper_bgcolor", "plot_bgcolor", "template"):
            if key in old:
                layout[key] = old[key]
        names = [trace["name"] for trace in figure["data"] if "name" in trace and trace.get("showlegend", True)]
        told = {trace.get("name") for trace in traces if trace.get("showlegend")}
        fresh = set(names) - told if old.get("showlegend", True) and len(set(names)) > 1 else set()
        traces += [self._trace(trace, legend, trace.get("name") in fresh) for trace in figure["data"]]

    # --- coordinates ---------------------------------------------------------------------------------------------

    def x(self, share: float) -> float:
        inner = self.width - self.margin["l"] - self.margin["r"]
        return (self.left + self.margin["l"] + share * inner) / WIDTH

    def y(self, share: float) -> float:
        inner = self.height - self.margin["t"] - self.margin["b"]
        return (self.bottom + self.margin["b"] + share * inner) / self.total

    def _name(self, axis: str, number: str, infix: str = "") -> str:
        moved = int(number or 1) + self.offset[axis]
        return f"{axis}{infix}{moved if moved > 1 else ''}"

    def _reference(self, text: Any) -> Any:
        """`x2` or `y domain` by its new name; `paper` and others as they are."""
        match = _REFERENCE.match(text) if isinstance(text, str) else None
        return self._name(match[1], match[2]) + (match[3] or "") if match else text

    # --- parts ---------------------------------------------------------------------------------------------------

    def _axis(self, axis: str, value: Mapping[str, Any]) -> dict[str, Any]:
        moved = {**value, "automargin": False}
        place = self.x if axis == "x" else self.y
        moved["domain"] = [place(end) for end in value.get("domain", (0, 1))]
        moved["anchor"] = self._reference(value.get("anchor", "y" if axis == "x" else "x"))
        for key in ("matches", "scaleanchor", "overlaying"):
            if key in value:
                moved[key] = self._reference(value[key])
        return moved

    def _placed(self, one: Mapping[str, Any]) -> dict[str, Any]:
        """An annotation or a shape."""
        moved = dict(one)
        for axis, place in (("x", self.x), ("y", self.y)):
            reference = one.get(f"{axis}ref", axis)
            moved[f"{axis}ref"] = self._reference(reference)
            if reference == "paper":
                moved |= {key: place(one[key]) for key in (axis, f"{axis}0", f"{axis}1") if key in one}
        return moved

    def _legend(self, legend: Mapping[str, Any], layout: dict[str, Any]) -> str:
        """The name of its legend. What goes across is one legend for all panels: two side by side would overlap."""
        across = legend.get("orientation") == "h"
        x, y = legend.get("x", 0.0 if across else 1.02), legend.get("y", -0.1 if across else 1.0)
        anchors = {"xanchor": "left", "yanchor": "top" if y > 2 / 3 or y < 0 else "bottom" if y < 1 / 3 else "middle"}
        before = [key for key in layout if key.startswith("legend") and layout[key].get("orientation") == "h"]
        if across and before:
            return before[0]
        name = f"legend{self.number + 1}" if self.number else "legend"
        layout[name] = {**anchors, **legend, "x": self.x(x), "y": self.y(y)}
        return name

    def _bar(self, bar: Mapping[str, Any]) -> dict[str, Any]:
        """A colour bar, along the height of its own panel."""
        length = bar.get("len", 1.0) * (self.y(1) - self.y(0))
        return {**bar, "x": self.x(bar.get("x", 1.02)), "y": self.y(bar.get("y", 0.5)), "len": length}

    def _trace(self, trace: Mapping[str, Any], legend: str, show: bool) -> dict[str, Any]:
        entry = show and trace["type"] != "heatmap" and trace.get("showlegend", True)
        moved = {**trace, "showlegend": entry, **({"legend": legend} if entry else {})}
        for axis in ("x", "y"):
            moved[f"{axis}axis"] = self._reference(trace.get(f"{axis}axis", axis))
        if "coloraxis" in trace:
            moved["coloraxis"] = f"coloraxis{100 * self.number + int(trace['coloraxis'][9:] or 1)}"
        if "colorbar" in trace:
            moved["colorbar"] = self._bar(trace["colorbar"])
        if "colorbar" in (marker := trace.get("marker", {})):
            moved["marker"] = {**marker, "colorbar": self._bar(marker["colorbar"])}
        return moved


def _has_colour_bar(figure: Mapping[str, Any]) -> bool:
    shown = [trace for trace in figure["data"] if trace.get("showscale", True)]
    inside = any("colorbar" in trace or trace.get("marker", {}).get("showscale") for trace in shown)
    return inside or any(key.startswith("coloraxis") for key in figure["layout"])
