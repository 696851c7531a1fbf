"""Finding out how a transformer counts: relation-based (RC), inventory-based (IC) or gated.

    >>> import counting_interp as ci
    >>> model = ci.load("bos+sftm-d64-p64-proved")   # a bundled name, or a path
    >>> model.predict("BBCBBBDEEE")
    >>> ci.classify(model)                           # three shares, and the label that is their short name

Every `model` argument accepts a bundled name, a path, a `CountingTransformer` or an `Adapter`. The names in `__all__`
are the public API; the packages `models`, `probes` and `interp` implement it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.pages.widget import LiveWidget
    from counting_interp.interp.proof import Certificate, ProofOutcome
    from counting_interp.interp.proof.repair import Repair
    from counting_interp.interp.verdict import Verdict
    from counting_interp.models.adapter import Adapter
    from counting_interp.models.config import CountingConfig as Config
    from counting_interp.models.protocol import CountingModel
    from counting_interp.models.transformer import CountingTransformer
    from counting_interp.probes.result import Result

    Model = str | Path | CountingModel

_HOMES = {
    "Adapter": "counting_interp.models.adapter:Adapter",
    "Certificate": "counting_interp.interp.proof:Certificate",
    "Config": "counting_interp.models.config:CountingConfig",
    "Verdict": "counting_interp.interp.verdict:Verdict",
}

__all__ = [
    "Adapter",
    "Certificate",
    "Config",
    "Verdict",
    "classify",
    "construct",
    "figure",
    "live",
    "load",
    "probe",
    "prove",
    "repair",
    "report",
    "sample",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'counting_interp' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__


def load(source: str | Path, **assume: Any) -> CountingTransformer:
    """A bundled model by its name, or a checkpoint by its path.

    Args:
        source: for instance `"bos+sftm-d45-p2"` or `"ckpt.pt"`.
        assume: `mixing`, `softmax` and `L` for a file without a configuration; by default they are inferred.

    Raises:
        CheckpointError: there is no such file, or it is refused; one sentence says why.
    """
    from counting_interp.models.transformer import CountingTransformer

    return CountingTransformer.load(source, **assume)


def sample(
    n: int, model: Model | None = None, *, T: int = 32, L: int = 10, sampler: str = "paper", seed: int = 0
) -> Tensor:
    """`n` sequences of the histogram task [n, L]; T and L are those of `model` if one is given."""
    from counting_interp.models import task

    if model is not None:
        config = _model(model).config
        T, L = config.T, config.L
    return task.sample(sampler, n, T=T, L=L, generator=seed)


def construct(name: str, *, T: int = 32, L: int = 10, **options: Any) -> CountingTransformer:
    """A model with weights set by hand so that it counts; `interp construct --list` names them all."""
    from counting_interp.models.constructions import construct as build

    return build(name, T=T, L=L, **options)


def train(
    name: str, *, T: int = 32, L: int = 10, d: int = 64, p: int = 64, layers: int = 1, seed: int = 0, **recipe: Any
) -> CountingTransformer:
    """Trains a model by the published protocol.

    Args:
        name: the variant: `lin`, `dot`, `bos`, each with or without `+sftm`.
        recipe: fields of `models.training.Recipe`, for instance `epochs=20`.

    Raises:
        ValueError: a recipe has no such field, or the configuration is impossible.
    """
    from counting_interp.models.config import CountingConfig
    from counting_interp.models.training import Recipe
    from counting_interp.models.training import train as run
    from counting_interp.util.text import did_you_mean

    known = [field.name for field in dataclasses.fields(Recipe)]
    for wrong in set(recipe) - set(known):
        raise ValueError(f"a recipe has no {wrong!r}; {did_you_mean(wrong, known)}")
    config = CountingConfig.parse(name, T=T, L=L, d=d, p=p, n_layers=layers, seed=seed)
    return run(config, Recipe(**recipe)).model()


def classify(model: Model, *, quick: bool = False, prove: bool = False, seed: int = 0) -> Verdict:
    """How does this model count? `prove` adds a proof on every sequence. See `interp.verdict.rule.classify`."""
    from counting_interp.interp.verdict import classify as decide

    return decide(_model(model), quick=quick, prove=prove, seed=seed)


def probe(name: str, model: Model, **options: Any) -> Result:
    """One measurement; `interp probe --list` names them all.

    Raises:
        NotApplicable: the probe does not apply to this model; the message says what does.
    """
    from counting_interp.probes import catalogue

    loaded = _model(model)
    if (sequence := options.get("sequence")) is not None:
        from counting_interp.models.task import parse_sequence

        text = sequence if isinstance(sequence, str) else " ".join(str(int(token)) for token in sequence)
        options["sequence"] = parse_sequence(text, loaded.config)
    return catalogue.find(name).run(loaded, **options)


def figure(names: str | Sequence[str], model: Model) -> Figure | list[Figure]:
    """One figure, or several in the order in which they are named; `interp figures --list` names them all."""
    from counting_interp.interp.figures import figures_of

    wanted, loaded = [names] if isinstance(names, str) else list(names), _model(model)
    drawn = [figure for name in wanted for figure in figures_of(loaded, [name])]
    return drawn[0] if isinstance(names, str) and len(drawn) == 1 else drawn


def live(model: Model, sequence: str | Sequence[int] | None = None) -> LiveWidget:
    """The model running in a notebook: type a sequence, click a weight, drag a mixture.

    `widget.sequence` is what is typed and can be set; `widget.predictions` and `widget.attention` are the answers.

    Raises:
        InterpError: the extra `notebooks` is not installed, or a page cannot run this model.
    """
    from counting_interp.util.errors import InterpError

    try:
        from counting_interp.interp.pages.widget import LiveWidget
    except ImportError as error:
        raise InterpError(f"{error.name} is missing: pip install 'counting-interp[notebooks]'") from error

    return LiveWidget(_model(model), sequence)  # type: ignore[arg-type]  # the widget checks the type


def prove(model: Model, *, seconds: float = 60.0) -> ProofOutcome:
    """Is the model right on every sequence? A certificate, a counterexample, or neither within the time."""
    from counting_interp.interp.proof import prove

    loaded = _model(model)
    return prove(loaded, seconds)  # type: ignore[arg-type]  # it checks the type


def repair(model: Model, *, seconds: float = 300.0, seed: int = 0, path: str | Path | None = None) -> Repair:
    """Trains a model on its errors until it is proved right on every sequence, or the time is up.

    Args:
        path: where to write the proved model, with its certificate beside it. An interrupted repair is resumed.

    Returns:
        The run: `run.model()` is the best model, `run.certificate` its proof or None, `run.rounds` what each round did.

    Raises:
        InterpError: the model cannot be repaired, or `path` already holds a proved model.
    """
    from counting_interp.interp.proof.repair import repair_until
    from counting_interp.util.errors import InterpError

    run = repair_until(_model(model), path and Path(path), seconds, seed, True)  # type: ignore[arg-type]  # checks it
    if run is None:
        raise InterpError(f"{path} is proved already: ci.load gives it")
    return run


def report(
    models: Model | list[Model], path: str | Path = "report.html", *, seed: int = 0, overwrite: bool = False
) -> Path:
    """Writes a page about one model, or several side by side: verdict, evidence, figures, and the live model.

    Returns:
        The path of the page.

    Raises:
        OutputError: `path` exists and is not a report, and `overwrite` is false.
    """
    from counting_interp.data import zoo_names, zoo_path
    from counting_interp.interp.pages.report import report_on

    def file_of(model: Model) -> Path | None:
        if not isinstance(model, (str, Path)):
            return None
        return zoo_path(str(model)) if str(model) in zoo_names() else Path(model)

    several = models if isinstance(models, list) else [models]
    report_on([(file_of(model), _model(model)) for model in several], Path(path), seed, overwrite)
    return Path(path)


def _model(model: Model) -> CountingModel:
    if isinstance(model, (str, Path)):
        return load(model)
    if not hasattr(model, "config"):
        from counting_interp.util.errors import InterpError

        what = "a bundled name, a path, a CountingTransformer or an Adapter"
        raise InterpError(f"a model is {what}, got {type(model).__name__}; ci.Adapter makes one of your own")
    return model
