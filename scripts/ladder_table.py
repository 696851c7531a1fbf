"""The runs of the ladder as a table and a picture: how many count, by which mechanism, and both causal numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.sweep.statistics import MECHANISMS
from counting_interp.probes.accuracy import proportion_interval
from counting_interp.util.tables import cell_value, read_csv, write_csv
from scripts.ladder import RUNGS, LadderRow

TABLE, PICTURE = Path("tables", "ladder.csv"), Path("pictures", "ladder.svg")
PLACE = re.compile(r"(<!-- table -->\n).*(<!-- end of table -->)", re.S)
HEAD = ("p", "`$`", "rung", "runs", "solved", "RC", "IC", "gated", "mixed")
Place = tuple[int, int, bool, str]  # T, p, with `$`, rung


def publish(rows: Sequence[LadderRow], docs: Path | None) -> None:
    """Print the table; given the folder of documents, write it there, with the runs behind it and the picture."""
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
    page.write_text(PLACE.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page.read_text()))


def read_table(docs: Path) -> list[LadderRow]:
    kinds = {field.name: str(field.type) for field in fields(LadderRow)}
    return read_csv(
        docs / TABLE, kinds, lambda row: LadderRow(**{name: cell_value(name, kinds[name], row[name]) for name in kinds})
    )


def places(rows: Sequence[LadderRow]) -> dict[Place, list[LadderRow]]:
    """The runs of each rung and size, in the order of the ladder."""
    found: dict[Place, list[LadderRow]] = {}
    for row in rows:
        found.setdefault((row.T, row.p, row.bos, row.rung), []).append(row)
    return dict(sorted(found.items(), key=lambda item: (*item[0][:3], list(RUNGS).index(item[0][3]))))


def markdown(rows: Sequence[LadderRow]) -> str:
    """One table for each T. Shares are of all runs (solved) or of the solved ones, in percent with 95 % intervals
    (Clopper and Pearson)."""
    groups = places(rows)
    tables = []
    for T in dict.fromkeys(place[0] for place in groups):
        here = {place: group for place, group in groups.items() if place[0] == T}
        first = next(iter(here.values()))[0]
        lines = [f"T = {T}, L = {first.L}, d = {first.d}:", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
        lines += [f"| {' | '.join(_cells(place, group))} |" for place, group in here.items()]
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def _cells(place: Place, group: Sequence[LadderRow]) -> list[str]:
    _, p, bos, rung = place
    solved = [row for row in group if row.mechanism not in ("unsolved", "undecided")]
    labels = Counter(row.mechanism for row in solved)
    cells = [str(p), "with" if bos else "without", ("+ " if RUNGS[rung] else "") + rung, str(len(group))]
    cells.append(_share(len(solved), len(group)))
    if not solved:
        return [*cells, *["-"] * 4]
    return [*cells, *(_share(labels[name], len(solved)) for name in ("RC", "IC", "gated", "mixed"))]


def _share(part: int, whole: int) -> str:
    low, high = proportion_interval(part, whole)
    return f"{100 * part / whole:.0f} ({100 * low:.0f}-{100 * high:.0f})"


def add_bars(figure: go.Figure, names: Sequence[str], counts: Sequence[Counter[str]], line: int, column: int) -> None:
    """One panel of stacked bars: of the runs behind each name, how many percent count by which mechanism."""
    for name in MECHANISMS:
        figure.add_bar(
            x=names,
            y=[100 * count[name] / count.total() if count else 0 for count in counts],
            marker={"color": style.MECHANISMS[name].colour, "line": {"color": "white", "width": 1}},
            name=style.MECHANISMS[name].words,
            legendgroup=name,
            showlegend=(line, column) == (1, 1),
            row=line,
            col=column,
        )
    for name, count in zip(names, counts, strict=True):
        figure.add_annotation(x=name, y=107, text=str(count.total()), showarrow=False, row=line, col=column)


def picture(rows: Sequence[LadderRow]) -> Figure:
    """One panel for each T, p and with or without `$`; the bars of a panel are its rungs."""
    groups = places(rows)
    lines = sorted({(T, bos) for T, _, bos, _ in groups})
    units = sorted({p for _, p, _, _ in groups})
    titles = [f"T = {T}, p = {p}, {'with' if bos else 'without'} $" for T, bos in lines for p in units]
    figure = make_subplots(len(lines), len(units), subplot_titles=titles, shared_xaxes=True, shared_yaxes=True)
    table = []
    rungs = [rung for rung in RUNGS if any(place[-1] == rung for place in groups)]
    names = [("+ " if RUNGS[rung] else "") + rung for rung in rungs]
    for line, (T, bos) in enumerate(lines, 1):
        for column, p in enumerate(units, 1):
            runs = [groups.get((T, p, bos, rung), []) for rung in rungs]
            counts = [Counter(row.mechanism for row in group) for group in runs]
            add_bars(figure, names, counts, line, column)
            for rung, group, count in zip(rungs, runs, counts, strict=True):
                shares_by_name = {name: count[name] for name in MECHANISMS}
                table.append({"T": T, "p": p, "bos": bos, "rung": rung, "runs": len(group), **shares_by_name})
    style.apply(figure, style.FULL_WIDTH, 130 + 170 * len(lines), barmode="stack", bargap=0.15)
    figure.update_yaxes(range=[0, 115], tickvals=[0, 50, 100])
    figure.update_yaxes(title={"text": "% of runs", "font_size": style.FONT_SIZE}, col=1)
    figure.update_xaxes(tickangle=-40, showgrid=False)
    figure.update_annotations(font_size=style.SMALL)
    figure.update_layout(legend={"orientation": "h", "y": 1.0 + 0.18 / len(lines), "yanchor": "bottom", "x": 0})
    figure.update_layout(margin={"t": 80, "b": 90})
    caption = "From the paper's block to a transformer's, one part added at a time; numbers above bars: runs."
    return Figure(figure, name="ladder", title="The ladder", caption=caption, table=table)
