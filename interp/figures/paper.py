"""Every figure of the paper, by number: from the zoo, the constructions, and sweeps where their tables are there.

A caption of our own says what is seen and where the published figure differs from its caption or its text. A figure
whose sweep has not been run is drawn as a note that names the command which makes its data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from interp.figures import style
from interp.figures.drawing import Drawing
from interp.figures.introspection import Settings, draw_all

if TYPE_CHECKING:
    from interp.sweep.table import RunRow

BUNDLED_SWEEP = Path(str(files("interp.figures") / "data" / "fig1.csv"))


@dataclass(frozen=True)
class Sources:
    """Where sweeps are: the bundled table, and the user's folders or tables on top of it."""

    sweeps: Sequence[str | Path] = ()

    def runs(self) -> list[RunRow]:
        from interp.sweep.table import read_runs

        bundled = [BUNDLED_SWEEP] if BUNDLED_SWEEP.exists() else []
        return read_runs(*bundled, *self.sweeps)


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
    draw: Callable[[Sources], Iterator[Drawing]]
    note: str = ""


def draw(name: str, sources: Sources | None = None) -> Iterator[Drawing]:
    """The drawings of one figure, named after it, each with the note in its caption."""
    known = {figure.name: figure for figure in PAPER}
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.4) or list(known)
        raise ValueError(f"the paper has no figure {name!r}; did you mean {', '.join(near)}?")
    figure = known[name]
    for drawing in figure.draw(sources or Sources()):
        drawing.name = f"{figure.number}-{figure.name}-{drawing.name}".replace(" ", "")
        drawing.caption = " ".join(part for part in (f"{figure.title}.", drawing.caption, figure.note) if part)
        yield drawing


def _zoo(names: Sequence[str], only: Sequence[str], sequence: str | None = None) -> Iterator[Drawing]:
    from models import zoo
    from probes.sequences import parse_sequence

    for name in names:
        model = zoo.load(name)
        tokens = None if sequence is None else parse_sequence(sequence, model.config)
        for drawing in draw_all(model, only, Settings(sequence=tokens)):
            drawing.caption = f"{name}: {drawing.caption}"
            drawing.name = f"{name}-{drawing.name}" + (f"-{sequence}" if sequence else "")
            yield drawing


def _introspection(*parts: tuple[Sequence[str], Sequence[str], str | None]) -> Callable[[Sources], Iterator[Drawing]]:
    def draw(sources: Sources) -> Iterator[Drawing]:
        for names, only, sequence in parts:
            yield from _zoo(names, only, sequence)

    return draw


def _construction(sources: Sources) -> Iterator[Drawing]:
    from models.constructions import construct

    yield from draw_all(construct("ic-dot+sftm", T=32, L=10), ["step-function"])


def _sweep(
    figure: str, preset: str, *, T: int = 32, L: int = 10, n_layers: int = 1, with_fig1: bool = False
) -> Callable[[Sources], Iterator[Drawing]]:
    """A figure of the runs with this T, L and number of layers, or the note that says how to make them."""

    def draw(sources: Sources) -> Iterator[Drawing]:
        from interp.figures.sweeps import draw_all as draw_sweep

        layers = (1, n_layers) if with_fig1 else (n_layers,)
        frozen = (False, True) if preset == "random" else (False,)
        runs = [
            run
            for run in sources.runs()
            if (run.cell.T, run.cell.L) == (T, L) and run.cell.n_layers in layers and run.cell.frozen in frozen
        ]
        drawings = list(draw_sweep(runs, [figure])) if runs else []
        yield from drawings or [missing(preset)]

    return draw


def missing(preset: str) -> Drawing:
    """A drawing that says which commands make its data."""
    commands = (
        f"interp sweep run sweeps/{preset} --preset {preset}",
        f"interp figures paper --sweep sweeps/{preset} -o out/",
    )
    figure = style.apply(go.Figure(), 560, 200)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    text = "The runs of this figure are not here. They are made by<br>" + "<br>".join(f"<b>{c}</b>" for c in commands)
    figure.add_annotation(x=0.5, y=0.5, xref="paper", yref="paper", text=text, showarrow=False)
    caption = f"Not drawn: its runs are not here. First `{commands[0]}`, then `{commands[1]}`."
    return Drawing(figure, name="missing", caption=caption, table=[{"command": command} for command in commands])


def _language_models(sources: Sources) -> Iterator[Drawing]:
    drawing = missing("llm")
    command = "interp llm --model PATH_OR_NAME -o out/llm"
    drawing.update_layout(annotations=[{**drawing.layout.annotations[0].to_plotly_json(), "text": f"<b>{command}</b>"}])
    drawing.caption = f"Not drawn: it needs a language model. `{command}` makes it for any causal model."
    drawing.table = [{"command": command}]
    yield drawing


FIG3 = ("bos+sftm-d45-p2",)
FIG4 = ("dot+sftm-d32-p32", "lin+sftm-d64-p64")
FIG5 = ("dot+sftm-d3-p32", "dot+sftm-d8-p32", "dot+sftm-d23-p32")
WIDE = ("lin-d64-p64", "lin+sftm-d64-p64", "dot+sftm-d64-p128", "dot-d64-p64", "bos-d64-p64", "bos+sftm-d64-p64")
TWO_B = "CBCBEBDDDE"  # the paper's second sequence

PAPER: tuple[PaperFigure, ...] = (
    PaperFigure(
        "Fig 1",
        "learning-regimes",
        "Where in (d, p) each model learns to count",
        _sweep("mean", "fig1"),
        "Published: stars and dots are drawn one cell to the right and one up; the paper lists 12, the runs used 11.",
    ),
    PaperFigure(
        "Fig 2",
        "parameter-counts",
        "Accuracy against the number of parameters",
        _sweep("parameters", "fig1"),
        "Published: what the caption calls a convex hull is a running maximum; both are drawn here.",
    ),
    PaperFigure(
        "Fig 3",
        "BOS-introspection",
        "Relation-based counting with bos+sftm",
        _introspection((FIG3, ("overlap", "bos-sweep", "bos-share"), None), (FIG3, ("attention",), "BBCBBBDEEE")),
        "Published: what the caption calls cosine similarity is the raw inner product (left panel here).",
    ),
    PaperFigure(
        "Fig 4",
        "softmax-introspection",
        "Inventory-based counting with dot+sftm and lin+sftm",
        _introspection((FIG4, ("attention",), "BBCBBBDEEE"), (FIG4, ("attention",), TWO_B), (FIG4, ("simplex",), None)),
        "Published: the colours of classes 1 to 4 are one off against the legend.",
    ),
    PaperFigure(
        "Fig 5",
        "decreasing-d",
        "Fewer dimensions than tokens",
        _introspection((FIG5, ("confusion", "overlap"), None)),
        "Published: the caption says dot, the models are dot+sftm, and each is the worst of five runs.",
    ),
    PaperFigure("Fig 6", "language-models", "Counting with 7-8B language models (also Fig. 7)", _language_models),
    PaperFigure("Fig 8", "step-function", "From a scalar to classes, hand-built dot+sftm", _construction),
    PaperFigure(
        "Fig 9",
        "output-curves",
        "Logits of a trained lin+sftm model against the number of occurrences",
        _introspection((("lin+sftm-d64-p64",), ("output-curves",), None)),
        "Published: the caption varies the counted token, the code varies the filler, as here.",
    ),
    PaperFigure(
        "Fig 10",
        "best",
        "Best accuracy of any run and epoch",
        _sweep("best", "best"),
        "Selection and reporting use the same validation sequences, as published.",
    ),
    PaperFigure("Fig 11", "variability", "Standard deviation over runs", _sweep("std", "variability")),
    PaperFigure(
        "Fig 12",
        "random-embeddings",
        "Learned minus random embeddings",
        _sweep("difference", "random"),
        "Published: random embeddings also have another norm and fresh noise at every occurrence.",
    ),
    PaperFigure(
        "Fig 13",
        "BOS-mixing",
        "The feed-forward layer on mixtures with $, 4 x 4 pairs of tokens",
        _introspection((FIG3, ("bos-sweep-sheet",), None)),
    ),
    PaperFigure(
        "Fig 14",
        "singular-values",
        "Singular values of the first feed-forward matrix",
        _introspection((WIDE, ("spectrum",), None)),
        "Published: every solved run with p, d >= 32; here one of each variant.",
    ),
    PaperFigure("Fig 15", "T15", "A smaller alphabet, T = 15", _sweep("mean", "T15", T=15)),
    PaperFigure("Fig 16", "T64", "A larger alphabet, T = 64", _sweep("mean", "T64", T=64)),
    PaperFigure("Fig 17", "L5", "Shorter sequences, L = 5", _sweep("mean", "L5", L=5)),
    PaperFigure("Fig 18", "L15", "Longer sequences, L = 15", _sweep("mean", "L15", L=15)),
    PaperFigure("Fig 19", "L30", "Sequences almost as long as the alphabet, L = 30", _sweep("mean", "L30", L=30)),
    PaperFigure(
        "Fig 20",
        "two-layers",
        "Two layers",
        _sweep("mean", "two-layers", n_layers=2),
        "Published: the second block never reads the first, so the published two-layer model is a one-layer model.",
    ),
    PaperFigure(
        "Fig 21",
        "two-layers-comparison",
        "One minus two layers",
        _sweep("difference", "two-layers", n_layers=2, with_fig1=True),
        "Published: epoch 999 of the two-layer runs is subtracted from epoch 499 of the one-layer runs.",
    ),
)
