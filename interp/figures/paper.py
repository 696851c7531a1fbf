"""Every figure of the paper, by number, from the zoo, the constructions, sweeps and language models' answers.

A caption of our own says what is seen and where the published figure differs from its caption or its text. A figure
whose numbers are not there is a note that names the commands which make them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from counting_interp.interp.figures.drawing import Drawing
from counting_interp.interp.figures.paper_parts import (
    MISSING,
    Draw,
    Part,
    Sources,
    construction,
    language_models,
    of_models,
    of_sweep,
)


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


def draw(name: str, sources: Sources | None = None) -> Iterator[Drawing]:
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


def summary(drawings: Sequence[Drawing], sources: Sources) -> str:
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
