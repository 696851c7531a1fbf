"""Every figure of the paper, by number, from bundled models, constructions, sweeps and language models' answers.

A caption says what the figure shows, and where the published figure differs from its caption or text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from counting_interp import data
from counting_interp.interp.figures import figures_of, paper_panels
from counting_interp.interp.figures.figure import Figure
from counting_interp.util.errors import InterpError
from counting_interp.util.text import did_you_mean

if TYPE_CHECKING:
    from counting_interp.interp.sweep.table import RunRow


class MissingDataError(InterpError):
    """The runs or answers of a figure are missing; the message names the commands that make them."""


@dataclass(frozen=True)
class Sources:
    """The data that figures are drawn from.

    Attributes:
        sweeps: the user's folders or tables, added to the bundled tables.
        llm: result folders of `interp llm`, which replace the bundled ones.
    """

    sweeps: Sequence[str | Path] = ()
    llm: Sequence[Path] = ()

    @cached_property
    def runs(self) -> list[RunRow]:
        from counting_interp.interp.sweep.table import read_runs

        return read_runs(*data.all_runs(), *self.sweeps)


Draw = Callable[[Sources], Iterator[Figure]]


@dataclass(frozen=True)
class PaperFigure:
    """One figure of the paper.

    Attributes:
        number: as in the paper.
        name: as in `--only`.
        title: what it shows.
        note: how it differs from the published figure, or what to know about that.
    """

    number: str
    name: str
    title: str
    draw: Draw
    note: str = ""

    @property
    def file_name(self) -> str:
        return f"{self.number}-{self.name}".replace(" ", "")


def find(name: str) -> PaperFigure:
    known = {figure.name: figure for figure in PAPER}
    if name not in known:
        raise ValueError(f"the paper has no figure {name!r}; {did_you_mean(name, known)}")
    return known[name]


def draw(name: str, sources: Sources | None = None) -> Iterator[Figure]:
    """Draws one figure of the paper, with its number in names and titles and its note in each caption.

    Raises:
        ValueError: the paper has no figure of this name.
        MissingDataError: its data are missing.
    """
    figure = find(name)
    for number, drawing in enumerate(figure.draw(sources or Sources())):
        drawing.name = figure.file_name + (f"-{number + 1}" if number else "")
        drawing.title = f"{figure.number}. {figure.title}"
        drawing.caption = " ".join(text for text in (f"{figure.title}.", drawing.caption, figure.note) if text)
        yield drawing


def summary(drawn: int, missing: Sequence[str], sources: Sources) -> str:
    """`16 figures drawn, 5 missing (Fig15-T15, ...), from 768 runs`."""
    named = f" ({', '.join(missing)}; the files *-missing.txt say how to make them)" if missing else ""
    return f"{drawn} figures drawn, {len(missing)} missing{named}, from {len(sources.runs):,} runs"


def of_models(panels: Callable[[], Figure]) -> Draw:
    """A figure of bundled models or tables, which are always available."""

    def draw(sources: Sources) -> Iterator[Figure]:
        yield panels()

    return draw


def construction(sources: Sources) -> Iterator[Figure]:
    from counting_interp.models.constructions import construct

    yield from figures_of(construct("ic-dot+sftm", T=32, L=10), ["step-function"])


def of_sweep(
    figure: str, preset: str, *, T: int = 32, L: int = 10, layers: Sequence[int] = (1,), random: bool = False
) -> Draw:
    """One of `phase.FIGURES` from the runs with this T, L and number of layers.

    Runs with different budgets or samplers are not mixed: the largest group that can be drawn is drawn.

    Args:
        preset: the sweep that makes such runs, for the error if there are none.
        random: include runs with random embeddings.
    """

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
        commands = (
            f"`interp sweep run sweeps/{preset} --preset {preset}`, then `interp figures paper --sweep sweeps/{preset}`"
        )
        raise MissingDataError(f"the runs of this figure are not here; they are made and drawn by {commands}")

    return draw


def language_models(sources: Sources) -> Iterator[Figure]:
    """The answers of each language model, all lists together, as the paper draws them."""
    from counting_interp.interp.figures.confusion import confusion_sheet
    from counting_interp.interp.llm.result import read_evaluation

    folders = sources.llm or data.language_models()
    if not folders:
        commands = "`interp llm --model PATH_OR_NAME -o out/llm`, then `interp figures paper --llm out/llm`"
        raise MissingDataError(f"this figure needs answers of a language model; they are made and drawn by {commands}")
    for folder in folders:
        result = read_evaluation(folder)
        samplings = result.names("sampling")
        figure = confusion_sheet(result, samplings[0] if len(samplings) == 1 else None)
        figure.about = f"{figure.title}; {figure.about}"
        yield figure


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
        of_models(paper_panels.bos_introspection),
        "Published: what the caption calls cosine similarity is the raw inner product (left panel here).",
    ),
    PaperFigure(
        "Fig 4",
        "softmax-introspection",
        "Inventory-based counting with dot+sftm and lin+sftm",
        of_models(paper_panels.softmax_introspection),
        "Published: the colours of classes 1 to 4 are one off against the legend.",
    ),
    PaperFigure(
        "Fig 5",
        "decreasing-d",
        "Fewer dimensions than tokens",
        of_models(paper_panels.decreasing_d),
        "Published: the caption says dot, the models are dot+sftm, and each is the worst of five runs.",
    ),
    PaperFigure("Fig 6", "language-models", "Counting by language models (also Fig. 7)", language_models),
    PaperFigure("Fig 8", "step-function", "From a scalar to classes, hand-built dot+sftm", construction),
    PaperFigure(
        "Fig 9",
        "output-curves",
        "Logits of trained lin+sftm models against the number of occurrences",
        of_models(paper_panels.output_curve_sheet),
        "Published: raw logits; the caption varies the counted token, the code varies the filler, as here.",
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
        of_models(paper_panels.bos_mixing),
    ),
    PaperFigure(
        "Fig 14",
        "singular-values",
        "Singular values of the first feed-forward matrix",
        of_models(paper_panels.singular_values),
        "Published: 427 runs, not normalised, on a linear axis.",
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
