"""All figures that one checkpoint can have: what each shows, where it makes sense, and how it is drawn.

Each entry runs its probe and hands the result to the figure function; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from models.config import CountingConfig
from probes import catalogue
from probes.applicability import NotApplicable

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from interp.figures.drawing import Drawing
    from models import CountingTransformer


@dataclass(frozen=True)
class Settings:
    """What a user may choose: the sequence of the attention figure, and the seed of what is sampled."""

    sequence: Int[Tensor, "pos"] | None = None
    seed: int = 0


Draw = Callable[["CountingTransformer", Settings], "Iterator[Drawing]"]


@dataclass(frozen=True)
class Introspection:
    """One entry of the list.

    Attributes:
        name: as in `--only`.
        description: one line.
        probe: the probe it draws; it makes sense where the probe does.
    """

    name: str
    description: str
    probe: str
    draw: Draw

    def applies_to(self, config: CountingConfig) -> bool:
        return catalogue.find(self.probe).applies_to(config)


def _figure(name: str) -> Callable[..., Drawing]:
    module, function = name.split(":")
    return getattr(import_module(f"interp.figures.{module}"), function)


def _attention(model: CountingTransformer, settings: Settings) -> Iterator[Drawing]:
    for layer in range(model.config.n_layers):
        result = catalogue.find("attention").run(model, sequence=settings.sequence, layer=layer, seed=settings.seed)
        yield _figure("attention:attention_figure")(result, softmax=model.config.softmax)


def _bos_share(model: CountingTransformer, settings: Settings) -> Iterator[Drawing]:
    for layer in range(model.config.n_layers):
        result = catalogue.find("bos-share").run(model, layer=layer, seed=settings.seed)
        yield _figure("bos_share:bos_share_figure")(result, softmax=model.config.softmax)


def _by_layer(probe: str, figure: str) -> Draw:
    def draw(model: CountingTransformer, settings: Settings) -> Iterator[Drawing]:
        for layer in range(model.config.n_layers):
            yield _figure(figure)(catalogue.find(probe).run(model, layer=layer, seed=settings.seed))

    return draw


def _plain(probe: str, figure: str) -> Draw:
    def draw(model: CountingTransformer, settings: Settings) -> Iterator[Drawing]:
        entry = catalogue.find(probe)
        yield _figure(figure)(entry.run(model, seed=settings.seed if "seed" in entry.options else None))

    return draw


def _sheet(probe: str) -> Draw:
    def draw(model: CountingTransformer, settings: Settings) -> Iterator[Drawing]:
        from probes import isolation

        sweep = {"bos-sweep": isolation.bos_sweep, "count-sweep": isolation.count_sweep}[probe]
        four = range(min(1, model.config.T - 2), min(5, model.config.T))
        yield _figure("isolation:sweep_sheet")(sweep(model, tokens=tuple(four)))

    return draw


FIGURES: tuple[Introspection, ...] = (
    Introspection(
        "cue-conflict",
        "Whose count comes out when attention and the self path name different tokens.",
        "cue-conflict",
        _by_layer("cue-conflict", "cue_conflict:cue_conflict_figure"),
    ),
    Introspection("attention", "Mixing pattern of a sequence, equal tokens framed.", "attention", _attention),
    Introspection("bos-share", "Attention to $ against the true count, and when it is set.", "bos-share", _bos_share),
    Introspection(
        "overlap",
        "Overlaps of embeddings (same, different, $) with the Welch bound.",
        "overlap",
        _plain("overlap", "overlap:overlap_figure"),
    ),
    Introspection(
        "spectrum",
        "Singular values of W1 with the line at T.",
        "spectrum",
        _by_layer("spectrum", "spectrum:spectrum_figure"),
    ),
    Introspection(
        "bos-sweep",
        "Feed-forward layer alone: predicted count against the weight of $.",
        "bos-sweep",
        _plain("bos-sweep", "isolation:sweep_figure"),
    ),
    Introspection("bos-sweep-sheet", "The same for 4 x 4 pairs of tokens.", "bos-sweep", _sheet("bos-sweep")),
    Introspection(
        "count-sweep",
        "Feed-forward layer alone between the mixed tokens of count 1 and count L.",
        "count-sweep",
        _plain("count-sweep", "isolation:sweep_figure"),
    ),
    Introspection("count-sweep-sheet", "The same for 4 x 4 pairs of tokens.", "count-sweep", _sheet("count-sweep")),
    Introspection(
        "simplex",
        "Feed-forward layer alone on mixtures of three tokens, for each residual.",
        "simplex",
        _plain("simplex", "simplex:simplex_figure"),
    ),
    Introspection(
        "readout",
        "Accuracy against the number of directions that carry the count.",
        "readout",
        _plain("readout", "readout:readout_figure"),
    ),
    Introspection(
        "output-curves",
        "Logits against the number of occurrences.",
        "output-curves",
        _plain("output-curves", "output_curves:output_curves_figure"),
    ),
    Introspection(
        "step-function",
        "Logits against the one hidden value, where a single unit counts.",
        "step-function",
        _plain("step-function", "step_function:step_function_figure"),
    ),
    Introspection(
        "confusion", "Predicted against true counts.", "errors", _plain("errors", "confusion:confusion_figure")
    ),
)
NAMES = tuple(entry.name for entry in FIGURES)


def draw_all(
    model: CountingTransformer, only: Sequence[str] = (), settings: Settings | None = None
) -> Iterator[Drawing]:
    """The figures that make sense for this model, or those of them that are named in `only`."""
    check_names(only)
    for entry in FIGURES:
        if (not only or entry.name in only) and entry.applies_to(model.config):
            with suppress(NotApplicable):  # some probes can only say so after a look at the weights
                yield from entry.draw(model, settings or Settings())


def check_names(only: Sequence[str]) -> None:
    for name in only:
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=3, cutoff=0.4) or NAMES
            raise ValueError(f"there is no figure {name!r}; did you mean {', '.join(near)}?")
