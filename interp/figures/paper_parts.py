"""What the paper's figures are drawn from: bundled models, tables of sweeps, answers of language models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from counting_interp.interp.figures import style
from counting_interp.interp.figures.composite import Panel, composite
from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.figures.introspection import Settings, draw_all

if TYPE_CHECKING:
    from counting_interp.interp.sweep.table import RunRow

MISSING = "missing"  # with which the name of a note ends that stands for a figure


@dataclass(frozen=True)
class Sources:
    """Where the numbers are: sweeps (the user's folders or tables on top of the bundled tables), and result folders of
    `interp llm`."""

    sweeps: Sequence[str | Path] = ()
    llm: Sequence[Path] = ()

    @cached_property
    def runs(self) -> list[RunRow]:
        from counting_interp.data import all_runs
        from counting_interp.interp.sweep.table import read_runs

        return read_runs(*all_runs(), *self.sweeps)


Draw = Callable[[Sources], Iterator[Drawing]]


@dataclass(frozen=True)
class Part:
    """A panel: a figure of a bundled model, on a sequence where it needs one."""

    model: str
    figure: str
    sequence: str | None = None
    title: str = ""
    share: float = 1.0


def of_models(*rows: Sequence[Part], heights: Sequence[int] = ()) -> Draw:
    """A figure of bundled models: one drawing as it is, several as a composite of rows so many pixels high."""

    def draw(sources: Sources) -> Iterator[Drawing]:
        if len(rows) == len(rows[0]) == 1:
            yield _one(rows[0][0])
            return
        panels = [[Panel(_one(part), part.title or part.model, part.share) for part in row] for row in rows]
        yield composite("composite", panels, heights)

    return draw


def _one(part: Part) -> Drawing:
    from counting_interp.models import CountingTransformer
    from counting_interp.probes.designs import parse_sequence

    model = CountingTransformer.load(part.model)
    tokens = None if part.sequence is None else parse_sequence(part.sequence, model.config)
    drawing = next(draw_all(model, [part.figure], Settings(sequence=tokens)))
    drawing.caption = f"{part.model}: {drawing.caption}"
    return drawing


def construction(sources: Sources) -> Iterator[Drawing]:
    from counting_interp.models.constructions import construct

    yield from draw_all(construct("ic-dot+sftm", T=32, L=10), ["step-function"])


def of_sweep(
    figure: str, preset: str, *, T: int = 32, L: int = 10, layers: Sequence[int] = (1,), random: bool = False
) -> Draw:
    """One of `sweeps.FIGURES` from the runs with this T, L and number of layers (and, with `random`, of both kinds of
    embeddings), or the note that says how to make them. Runs of several budgets or samplers do not go on one picture:
    those of which there are most are drawn."""

    def draw(sources: Sources) -> Iterator[Drawing]:
        from counting_interp.interp.figures.sweeps import draw_all as draw_sweep

        groups: defaultdict[tuple[str, int], list[RunRow]] = defaultdict(list)
        for run in sources.runs:
            cell = run.cell
            if (cell.T, cell.L) == (T, L) and cell.n_layers in layers and (random or not cell.frozen):
                groups[cell.sampler, cell.epochs].append(run)
        for runs in sorted(groups.values(), key=len, reverse=True):
            if drawings := list(draw_sweep(runs, [figure])):
                yield drawings[0]
                return
        yield missing(preset)

    return draw


def missing(preset: str) -> Drawing:
    """A note that says which commands make the runs of a figure."""
    commands = (
        f"interp sweep run sweeps/{preset} --preset {preset}",
        f"interp figures paper --sweep sweeps/{preset} -o out/",
    )
    return _note("The runs of this figure are not here. They are made by", commands, "its runs are not here")


def language_models(sources: Sources) -> Iterator[Drawing]:
    """The answers of each language model, all lists together, as the paper draws them."""
    from counting_interp.interp.figures.language_models import confusion_sheet
    from counting_interp.interp.llm.result import read_evaluation

    for folder in sources.llm:
        result = read_evaluation(folder)
        samplings = result.names("sampling")
        yield confusion_sheet(result, samplings[0] if len(samplings) == 1 else None)
    if not sources.llm:
        commands = ("interp llm --model PATH_OR_NAME -o out/llm", "interp figures paper --llm out/llm -o out/")
        yield _note("This figure needs answers of a language model:", commands, "it needs a language model")


def _note(text: str, commands: Sequence[str], why: str) -> Drawing:
    figure = style.apply(go.Figure(), 560, 200)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    lines = "<br>".join([text, *(f"<b>{command}</b>" for command in commands)])
    figure.add_annotation(x=0.5, y=0.5, xref="paper", yref="paper", text=lines, showarrow=False)
    caption = f"Not drawn: {why}. First `{commands[0]}`, then `{commands[1]}`."
    return Drawing(figure, name=MISSING, caption=caption, table=[{"command": command} for command in commands])
