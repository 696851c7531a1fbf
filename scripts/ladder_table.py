"""The runs of the ladder as a table and a picture: how many count, and by which mechanism."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure, Grid
from counting_interp.interp.sweep.statistics import MECHANISMS
from counting_interp.probes.accuracy import proportion_interval
from counting_interp.util.tables import cell_value, read_csv, write_csv
from scripts.ladder import RUNGS, LadderRow

TABLE, PICTURE = Path("tables", "ladder.csv"), Path("pictures", "ladder.svg")
SECTION = re.compile(r"(<!-- table -->\n).*(<!-- end of table -->)", re.S)
HEAD = ("p", "`$`", "rung", "runs", "solved", "RC", "IC", "gated", "mixed", "no label")
ROOM = 15  # percent: a lower bar has no room for a letter
StackKey = tuple[int, int, bool, str]  # T, p, with `$`, rung


def publish(rows: Sequence[LadderRow], docs: Path | None) -> None:
    """Print the table. If `docs` is given, also write the table, the runs behind it and the picture there."""
    text = markdown(rows)
    print(text)
    if docs is None:
        return
    from counting_interp.interp.pages.export import render

    (docs / TABLE).write_text(write_csv(asdict(row) for row in rows))
    images, missing = render([picture(rows)], ["svg"])
    if missing is not None:
        raise SystemExit(missing)
    (docs / PICTURE).write_bytes(next(iter(images.values())))
    page = docs / "ladder.md"
    page.write_text(SECTION.sub(lambda match: f"{match[1]}\n{text}\n{match[2]}", page.read_text()))


def read_table(docs: Path) -> list[LadderRow]:
    kinds = {field.name: str(field.type) for field in fields(LadderRow)}
    return read_csv(
        docs / TABLE, kinds, lambda row: LadderRow(**{name: cell_value(name, kinds[name], row[name]) for name in kinds})
    )


def by_stack(rows: Sequence[LadderRow]) -> dict[StackKey, list[LadderRow]]:
    """The runs of each rung and size, in the order of the ladder."""
    groups: dict[StackKey, list[LadderRow]] = {}
    for row in rows:
        groups.setdefault((row.T, row.p, row.bos, row.rung), []).append(row)
    return dict(sorted(groups.items(), key=lambda item: (*item[0][:3], list(RUNGS).index(item[0][3]))))


def markdown(rows: Sequence[LadderRow]) -> str:
    """One table for each T, in percent with Clopper and Pearson's 95 % intervals.

    The column `solved` is a share of all runs, the mechanisms are shares of the solved ones.
    """
    groups = by_stack(rows)
    tables = []
    for T in dict.fromkeys(key[0] for key in groups):
        of_T = {key: group for key, group in groups.items() if key[0] == T}
        first = next(iter(of_T.values()))[0]
        lines = [f"T = {T}, L = {first.L}, d = {first.d}:", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
        lines += [f"| {' | '.join(_cells(key, group))} |" for key, group in of_T.items()]
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def _cells(key: StackKey, group: Sequence[LadderRow]) -> list[str]:
    _, p, bos, rung = key
    solved = [row for row in group if row.mechanism != "unsolved"]
    labels = Counter(row.mechanism for row in solved)
    cells = [str(p), "with" if bos else "without", ("+ " if RUNGS[rung] else "") + rung, str(len(group))]
    cells.append(_share(len(solved), len(group)))
    if not solved:
        return [*cells, *["-"] * 5]
    return [*cells, *(_share(labels[name], len(solved)) for name in ("RC", "IC", "gated", "mixed", "undecided"))]


def _share(number: int, total: int) -> str:
    low, high = proportion_interval(number, total)
    return f"{100 * number / total:.0f} ({100 * low:.0f}-{100 * high:.0f})"


def bar_panels(panels: Mapping[str, Mapping[str, Counter[str]]], columns: int, **layout: Any) -> Grid:
    """Panels of stacked bars: the percentage of runs by mechanism, with the number of runs above each bar."""
    rows = len(panels) // columns
    frame, legend = {"b": 104 if rows > 1 else 56}, {**style.BELOW, "traceorder": "normal"}
    grid = Grid(
        [columns] * rows, [120] * rows, gap=22, below=34, margin=frame, legend=legend, barmode="stack", **layout
    )
    for number, (panel, (title, bars)) in enumerate(zip(grid.panels, panels.items(), strict=True)):
        names = list(bars)
        for name in MECHANISMS:
            look = style.MECHANISMS[name]
            heights = [100 * count[name] / count.total() if count else 0 for count in bars.values()]
            letters = "" if name == "unsolved" else look.letters  # readable without colour
            panel.add(
                go.Bar(
                    x=names,
                    y=heights,
                    text=[letters if height >= ROOM else "" for height in heights],
                    textangle=0,
                    insidetextanchor="middle",
                    textfont={"size": style.TINY, "color": look.on},
                    marker={"color": look.colour, "line": {"color": "white", "width": 1}},
                    name=name,
                    showlegend=number == 0,
                    hovertemplate=f"%{{x}}: %{{y:.0f}} % {name}<extra></extra>",
                )
            )
        for name, count in bars.items():
            if not count:
                continue
            panel.note(str(count.total()), names.index(name), 100, data="xy", yanchor="bottom", font_size=style.TINY)
        panel.title(title)
        panel.x(type="category", showgrid=False, tickangle=-40 if rows > 1 else 0, showticklabels=panel.row == rows)
        panel.y("% of runs" if panel.column == 1 else None, range=[0, 116], tickvals=[0, 50, 100])
        panel.y(showticklabels=panel.column == 1)
    return grid


def picture(rows: Sequence[LadderRow]) -> Figure:
    """One panel for each T, p and with or without `$`. Its bars are the rungs that have runs."""
    groups = by_stack(rows)
    rungs = [rung for rung in RUNGS if any(key[3] == rung for key in groups)]
    units = sorted({p for _, p, _, _ in groups})
    panels: dict[str, dict[str, Counter[str]]] = {}
    table = []
    for T, bos, p in product(*(sorted({key[i] for key in groups}) for i in (0, 2, 1))):
        bars = panels.setdefault(f"T = {T}, p = {p}, {'with' if bos else 'without'} $", {})
        for rung in rungs:
            count = Counter(row.mechanism for row in groups.get((int(T), int(p), bool(bos), rung), ()))
            bars[("+ " if RUNGS[rung] else "") + rung] = count
            by_name = {name: count[name] for name in MECHANISMS}
            table.append({"T": T, "p": p, "bos": bool(bos), "rung": rung, "runs": count.total(), **by_name})
    caption = "From the paper's block to a transformer's, one part added at a time; numbers above bars: runs."
    sizes = dict.fromkeys(f"T = {row.T}: L = {row.L}, d = {row.d}" for row in rows)
    about = "; ".join([f"{len(rows)} runs", *sizes, "white part of a bar: no label"])
    figure = bar_panels(panels, len(units), bargap=0.15).figure
    return Figure(figure, name="ladder", title="The ladder", caption=caption, table=table, about=about)
