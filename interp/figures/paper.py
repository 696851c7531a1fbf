"""Every figure of the paper, by number, from bundled models, constructions, sweeps and language models' answers.

A caption says what is seen and where the published figure differs from its caption or its text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from counting_interp.interp.figures import Settings, figures_of, style
from counting_interp.interp.figures.composite import Panel, composite
from counting_interp.interp.figures.figure import Figure

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
        from counting_interp.interp.sweep.bundled import bundled_tables
        from counting_interp.interp.sweep.table import read_runs

        return read_runs(*bundled_tables(), *self.sweeps)


Draw = Callable[[Sources], Iterator[Figure]]


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

    def draw(sources: Sources) -> Iterator[Figure]:
        if len(rows) == len(rows[0]) == 1:
            yield _one(rows[0][0])
            return
        panels = [[Panel(_one(part), part.title or part.model, part.share) for part in row] for row in rows]
        yield composite("composite", panels, heights)

    return draw


def _one(part: Part) -> Figure:
    from counting_interp.models import zoo
    from counting_interp.probes.sequences import parse_sequence

    model = zoo.load(part.model)
    tokens = None if part.sequence is None else parse_sequence(part.sequence, model.config)
    drawing = next(figures_of(model, [part.figure], Settings(sequence=tokens)))
    drawing.caption = f"{part.model}: {drawing.caption}"
    return drawing


def construction(sources: Sources) -> Iterator[Figure]:
    from counting_interp.models.constructions import construct

    yield from figures_of(construct("ic-dot+sftm", T=32, L=10), ["step-function"])


def of_sweep(
    figure: str, preset: str, *, T: int = 32, L: int = 10, layers: Sequence[int] = (1,), random: bool = False
) -> Draw:
    """One of `sweeps.FIGURES` from the runs with this T, L and number of layers (and, with `random`, of both kinds of
    embeddings), or the note that says how to make them. Runs of several budgets or samplers do not go on one picture:
    those of which there are most are drawn."""

    def draw(sources: Sources) -> Iterator[Figure]:
        from counting_interp.interp.figures.phase import sweep_figures

        groups: defaultdict[tuple[str, int], list[RunRow]] = defaultdict(list)
        for run in sources.runs:
            cell = run.cell
            if (cell.T, cell.L) == (T, L) and cell.n_layers in layers and (random or not cell.frozen):
                groups[cell.sampler, cell.epochs].append(run)
        for runs in sorted(groups.values(), key=len, reverse=True):
            if drawings := list(sweep_figures(runs, [figure])):
                yield drawings[0]
                return
        yield missing(preset)

    return draw


def missing(preset: str) -> Figure:
    """A note that says which commands make the runs of a figure."""
    commands = (
        f"interp sweep run sweeps/{preset} --preset {preset}",
        f"interp figures paper --sweep sweeps/{preset} -o out/",
    )
    return _note("The runs of this figure are not here. They are made by", commands, "its runs are not here")


def language_models(sources: Sources) -> Iterator[Figure]:
    """The answers of each language model, all lists together, as the paper draws them."""
    from counting_interp.interp.figures.confusion import confusion_sheet
    from counting_interp.interp.llm.reading import read_evaluation

    for folder in sources.llm:
        result = read_evaluation(folder)
        samplings = result.names("sampling")
        yield confusion_sheet(result, samplings[0] if len(samplings) == 1 else None)
    if not sources.llm:
        commands = ("interp llm --model PATH_OR_NAME -o out/llm", "interp figures paper --llm out/llm -o out/")
        yield _note("This figure needs answers of a language model:", commands, "it needs a language model")


def _note(text: str, commands: Sequence[str], why: str) -> Figure:
    figure = style.apply(go.Figure(), 560, 200)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    lines = "<br>".join([text, *(f"<b>{command}</b>" for command in commands)])
    figure.add_annotation(x=0.5, y=0.5, xref="paper", yref="paper", text=lines, showarrow=False)
    caption = f"Not drawn: {why}. First `{commands[0]}`, then `{commands[1]}`."
    return Figure(figure, name=MISSING, caption=caption, table=[{"command": command} for command in commands])


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper.

    Attributes:
        number: as the paper counts.
        name: as in `--only`.
        title: what it shows.
        note: how it differs from what was published.
    """

    number: str
    name: str
    title: str
    draw: Draw
    note: str = ""


def draw(name: str, sources: Sources | None = None) -> Iterator[Figure]:
    """The drawings of one figure, named after it, each with the note in its caption."""
    known = {figure.name: figure for figure in PAPER}
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.4) or list(known)
        raise ValueError(f"the paper has no figure {name!r}; did you mean {', '.join(near)}?")
    figure = known[name]
    for number, drawing in enumerate(figure.draw(sources or Sources())):
        ending = f"-{MISSING}" if drawing.name == MISSING else f"-{number + 1}" if number else ""
        drawing.name = f"{figure.number}-{figure.name}{ending}".replace(" ", "")
        drawing.title = f"{figure.number}. {figure.title}"
        drawing.caption = " ".join(part for part in (f"{figure.title}.", drawing.caption, figure.note) if part)
        yield drawing


def summary(drawings: Sequence[Figure], sources: Sources) -> str:
    """`16 figures drawn, 5 missing (Fig15-T15, ...), from 768 runs`."""
    absent = [drawing.name.removesuffix(f"-{MISSING}") for drawing in drawings if drawing.name.endswith(MISSING)]
    named = f" ({', '.join(absent)}; their notes say how to make them)" if absent else ""
    return f"{len(drawings) - len(absent)} figures drawn, {len(absent)} missing{named}, from {len(sources.runs):,} runs"


BOS = "bos+sftm-d45-p2"
SOFTMAX = ("dot+sftm-d32-p32", "lin+sftm-d64-p64")
NARROW = ("dot+sftm-d3-p32", "dot+sftm-d8-p32", "dot+sftm-d23-p32")
WIDE = (
    ("bos+sftm-d64-p64", "dot+sftm-d64-p128", "lin+sftm-d64-p64"),
    ("bos-d64-p64", "dot-d64-p64", "lin-d64-p64"),
)
ONE_B, TWO_B = "BBCBBBDEEE", "CBCBEBDDDE"  # the paper's two sequences

PAPER: tuple[PaperFigure, ...] = (
    PaperFigure(
        "Fig 1",
        "learning-regimes",
        "Where in (d, p) each model learns to count",
        of_sweep("mean", "fig1"),
        "Published: stars and dots are drawn one cell to the right and one up; the paper lists 12, the runs used 11.",
    ),
    PaperFigure(
        "Fig 2",
        "parameter-counts",
        "Accuracy against the number of parameters",
        of_sweep("parameters", "fig1"),
        "Published: what the caption calls a convex hull is a running maximum; both are drawn here.",
    ),
    PaperFigure(
        "Fig 3",
        "BOS-introspection",
        "Relation-based counting with bos+sftm",
        of_models(
            [Part(BOS, "overlap", None, "Embeddings", 1.5), Part(BOS, "attention", ONE_B, "Attention")],
            [
                Part(BOS, "bos-sweep", None, "The feed-forward layer on a mixture with $"),
                Part(BOS, "bos-share", None, "What $ gets", 1.5),
            ],
            heights=(330, 300),
        ),
        "Published: what the caption calls cosine similarity is the raw inner product (left panel here).",
    ),
    PaperFigure(
        "Fig 4",
        "softmax-introspection",
        "Inventory-based counting with dot+sftm and lin+sftm",
        of_models(
            *(
                [
                    Part(model, "attention", ONE_B, f"{model}, {ONE_B}"),
                    Part(model, "attention", TWO_B, f"{model}, {TWO_B}"),
                    Part(model, "simplex", None, f"{model}, mixtures of three tokens", 1.6),
                ]
                for model in SOFTMAX
            ),
            heights=(290, 290),
        ),
        "Published: the colours of classes 1 to 4 are one off against the legend.",
    ),
    PaperFigure(
        "Fig 5",
        "decreasing-d",
        "Fewer dimensions than tokens",
        of_models(
            *([Part(model, figure) for model in NARROW] for figure in ("confusion", "overlap")), heights=(310, 270)
        ),
        "Published: the caption says dot, the models are dot+sftm, and each is the worst of five runs.",
    ),
    PaperFigure("Fig 6", "language-models", "Counting with 7-8B language models (also Fig. 7)", language_models),
    PaperFigure("Fig 8", "step-function", "From a scalar to classes, hand-built dot+sftm", construction),
    PaperFigure(
        "Fig 9",
        "output-curves",
        "Logits of a trained lin+sftm model against the number of occurrences",
        of_models([Part("lin+sftm-d64-p64", "output-curves")]),
        "Published: the caption varies the counted token, the code varies the filler, as here.",
    ),
    PaperFigure(
        "Fig 10",
        "best",
        "Best accuracy of any run and epoch",
        of_sweep("best", "best"),
        "Selection and reporting use the same validation sequences, as published.",
    ),
    PaperFigure("Fig 11", "variability", "Standard deviation over runs", of_sweep("std", "variability")),
    PaperFigure(
        "Fig 12",
        "random-embeddings",
        "Learned minus random embeddings",
        of_sweep("difference", "random", random=True),
        "Published: random embeddings also have another norm and fresh noise at every occurrence.",
    ),
    PaperFigure(
        "Fig 13",
        "BOS-mixing",
        "The feed-forward layer on mixtures with $, 4 x 4 pairs of tokens",
        of_models([Part(BOS, "bos-sweep-sheet")]),
    ),
    PaperFigure(
        "Fig 14",
        "singular-values",
        "Singular values of the first feed-forward matrix",
        of_models(*([Part(model, "spectrum") for model in row] for row in WIDE), heights=(260, 260)),
        "Published: every solved run with p, d >= 32; here one of each variant.",
    ),
    PaperFigure("Fig 15", "T15", "A smaller alphabet, T = 15", of_sweep("mean", "T15", T=15)),
    PaperFigure("Fig 16", "T64", "A larger alphabet, T = 64", of_sweep("mean", "T64", T=64)),
    PaperFigure("Fig 17", "L5", "Shorter sequences, L = 5", of_sweep("mean", "L5", L=5)),
    PaperFigure("Fig 18", "L15", "Longer sequences, L = 15", of_sweep("mean", "L15", L=15)),
    PaperFigure("Fig 19", "L30", "Sequences almost as long as the alphabet, L = 30", of_sweep("mean", "L30", L=30)),
    PaperFigure(
        "Fig 20",
        "two-layers",
        "Two layers",
        of_sweep("mean", "two-layers", layers=(2,)),
        "Published: the second block never reads the first, so the published two-layer model is a one-layer model.",
    ),
    PaperFigure(
        "Fig 21",
        "two-layers-comparison",
        "One minus two layers",
        of_sweep("difference", "two-layers", layers=(1, 2)),
        "Published: epoch 999 of the two-layer runs is subtracted from epoch 499 of the one-layer runs.",
    ),
)
