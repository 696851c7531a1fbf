"""Interventions as pictures: whose count comes out, what is left without comparison, and how a mechanism forms."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.figures.mechanism_map import COLOURS
from counting_interp.interp.verdict.formation import Formation
from counting_interp.probes.cue_conflict import CueConflict, Flattening


def cue_conflict_figure(result: CueConflict) -> Figure:
    """The count of t on x, of s on y: vertical stripes follow attention (RC), horizontal ones the swap (IC)."""
    counts = list(range(1, result.L))
    table = result.map.T  # rows: count of s
    heat = go.Heatmap(
        z=[[None if value != value else value for value in row] for row in table.tolist()],
        x=counts,
        y=counts,
        zmin=1,
        zmax=result.L,
        colorscale=style.SEQUENTIAL,
        xgap=1,
        ygap=1,
        text=[["" if value != value else f"{value:.1f}" for value in row] for row in table.tolist()],
        texttemplate="%{text}" if result.L <= 16 else None,
        textfont_size=style.SMALL - 1,
        colorbar={"title": "predicted", "thickness": 12},
    )
    figure = style.apply(go.Figure(heat), 440, 400, margin={"l": 60, "r": 20, "t": 20, "b": 55})
    figure.update_xaxes(title_text="count of t, which attention compared", dtick=1, showgrid=False, constrain="domain")
    figure.update_yaxes(
        title="count of s, which the self path names", dtick=1, showgrid=False, scaleanchor="x", constrain="domain"
    )
    with_t, with_s = result.follows
    caption = (
        f"Mean predicted count after the self path was swapped from t to s, over {len(result.pairs)} pairs. It changes "
        f"by {with_t:.2f} per occurrence of t and by {with_s:.2f} per occurrence of s: relation-based counting gives "
        "1 and 0 (vertical stripes), inventory-based counting 0 and 1 (horizontal stripes)."
    )
    return Figure(
        figure,
        name=f"cue-conflict-{result.layer + 1}",
        title="Whose count comes out?",
        caption=caption,
        table=result.rows(),
    )


def flattening_figure(result: Flattening) -> Figure:
    """The predicted count against the true one, before and after. A flat line: attention's comparison carried it."""
    counts = result.cells[:, 0].unique()
    figure = go.Figure()
    for name, predicted, colour, dash in (
        ("as it is", result.unchanged, style.GREY, "dot"),
        ("without attention's comparison", result.predicted, style.BLUE, "solid"),
    ):
        means = [float(predicted[:, result.cells[:, 0] == k].float().mean()) for k in counts]
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=counts.tolist(), y=means, mode="lines+markers", line=line, name=name, marker_size=6)
    style.apply(figure, 480, 340)
    figure.update_xaxes(title_text="count of t", dtick=1 if result.L <= 16 else None)
    figure.update_yaxes(title_text="mean predicted count", range=[0.5, result.L + 0.5])
    kept = "" if result.kept is None else f" {max(0.0, result.kept):.0%} of the slope is left."
    caption = (
        "The place asks the others as a token that does not occur, so that attention finds nothing equal; residual and "
        f"values stay, over {len(result.pairs)} pairs of tokens.{kept} Where attention's comparison carries the count, "
        "nothing is left; where the feed-forward layer compares by itself, nearly all of it."
    )
    return Figure(
        figure,
        name=f"flattening-{'all' if result.layer is None else result.layer + 1}",
        title="What is left without attention's comparison?",
        caption=caption,
        table=result.rows(),
    )


SERIES = (  # column, name, colour, dash
    ("accuracy", "accuracy", style.GREY, "dot"),
    ("kept", "count kept without comparison", style.VERMILION, "dash"),
    ("with_t", "follows attention (t)", style.BLUE, "solid"),
    ("with_s", "follows the self path (s)", style.VERMILION, "solid"),
)
STRIP = -0.75  # where the verdicts stand, below the curves


def formation_figure(formation: Formation) -> Figure:
    """The training step on an axis that is logarithmic and has a place for 0; one means all of the count. Below, the
    verdict on each snapshot, small while it is only what an unsolved model leans to."""
    table = [{"step": one.step, **one.verdict.row()} for one in formation.snapshots]
    steps = [place(int(row["step"] or 0)) for row in table]
    text = [f"{row['label']} at step {row['step']:,}" for row in table]
    figure = go.Figure()
    for key, name, colour, dash in SERIES:
        values = [row[key] for row in table]
        line = {"color": colour, "dash": dash}
        figure.add_scatter(x=steps, y=values, mode="lines+markers", line=line, name=name, text=text, marker_size=5)
    _verdicts(figure, formation, steps)
    below = {"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0}
    style.apply(figure, 640, 440, margin={"l": 60, "r": 20, "t": 20, "b": 130}, legend=below)
    ticks = [0, *(10**i for i in range(int(steps[-1]) + 1))]
    names = [f"{tick:,}" for tick in ticks]
    figure.update_xaxes(title_text="training step", tickvals=[place(tick) for tick in ticks], ticktext=names)
    figure.update_yaxes(range=[-0.9, 1.35], tickvals=[STRIP, 0, 0.5, 1], ticktext=["verdict", "0", "0.5", "1"])
    if formation.forms_at is not None:
        _settled(figure, formation.labels[-1], formation.forms_at)
    caption = f"Formation of the strategy over {len(table)} snapshots of one run. {formation}"
    return Figure(figure, name="formation", title="How the strategy forms", caption=caption, table=table)


def place(step: int) -> float:
    """On the axis: logarithmic, with step 0 at its left end."""
    return log10(1 + step)


def _verdicts(figure: go.Figure, formation: Formation, steps: Sequence[float]) -> None:
    """One square for each snapshot, and for each verdict that occurs one entry of the legend."""
    squares: dict[str, list[tuple[float, bool]]] = {}
    for step, lean, label in zip(steps, formation.leans, formation.labels, strict=True):
        squares.setdefault("unsolved" if lean == "-" else lean, []).append((step, label != "unsolved" or lean == "-"))
    for name, found in squares.items():
        marker: dict[str, Any] = {
            "symbol": "square",
            "color": COLOURS[name],
            "opacity": 1,  # plotly makes symbols of several sizes see-through
            "size": [13 if full else 8 for _, full in found],
            "line": {"color": "#444444", "width": 0.8},
        }
        x, y = [step for step, _ in found], [STRIP] * len(found)
        figure.add_scatter(x=x, y=y, mode="markers", marker=marker, name=name, hoverinfo="skip")


def _settled(figure: go.Figure, label: str, step: int) -> None:
    """A line where the last verdict begins to stay."""
    x = place(step)
    line = {"color": "#222222", "width": 1, "dash": "dot"}
    figure.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, yref="paper", line=line)
    figure.add_annotation(
        x=x, y=1.26, text=f"{label} settled at step {step:,} ", showarrow=False, xanchor="right", font_size=style.SMALL
    )
