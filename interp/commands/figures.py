"""`interp figures`: draw checkpoints, sweeps, or the whole paper. The first word says which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interp.checkpoints import AssumeMixing, AssumeSoftmax, Seed, Threads, expand, use
from interp.console import USAGE, complain, usage_errors

if TYPE_CHECKING:
    from interp.figures.drawing import Drawing

EXAMPLES = "`interp figures ckpt.pt`, `interp figures phase SWEEP` or `interp figures paper`"


def register(app: typer.Typer) -> None:
    app.command()(figures)


def figures(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CKPT... | phase SWEEP... | paper",
            help="Checkpoints; or `phase` and sweeps (folders or tables); or `paper`.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")] = Path(
        "figures"
    ),
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this figure; repeatable.")] = None,
    formats: Annotated[str, typer.Option("--format", help="Of html, png, svg, pdf.")] = "html,png,svg,pdf",
    sequence: Annotated[str | None, typer.Option(help="For attention matrices, such as BBCBBBDEEE.")] = None,
    sweep: Annotated[
        list[str] | None, typer.Option(metavar="SWEEP", help="With `paper`: more sweeps to draw from; repeatable.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Say what each figure shows.")] = False,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    seed: Seed = 0,
    threads: Threads = 1,
) -> None:
    """Draw figures, with the numbers of each as CSV. HTML needs no browser to write; images need Chrome or Chromium."""
    if show_list:
        _print_list()
        return
    first, *rest = targets or [""]
    if first == "phase" and not rest:
        complain("say which sweep to draw: `interp figures phase DIR`")
        raise typer.Exit(USAGE)
    if not first or (first == "paper" and rest):
        complain(f"say what to draw: {EXAMPLES}; --list explains")
        raise typer.Exit(USAGE)
    use(threads=threads)
    from interp.figures import export

    with usage_errors():
        chosen = export.parse_formats(formats)
        if first == "phase":
            drawings = _phase(rest, only or ())
        elif first == "paper":
            drawings = _paper(only or (), sweep or ())
        else:
            assume = {"mixing": mixing.value if mixing else None, "softmax": softmax}
            drawings = _checkpoints([first, *rest], only or (), sequence, seed, assume)
        done = export.write(drawings, output, chosen)
    if done.missing:
        complain(done.missing)
    for path in done.paths:
        typer.echo(path)


def _checkpoints(
    targets: Sequence[str], only: Sequence[str], sequence: str | None, seed: int, assume: Mapping[str, Any]
) -> Iterator[Drawing]:
    """The introspection figures of each checkpoint; with several, their names in front."""
    from interp.figures.introspection import Settings, check_names, draw_all
    from models import CountingTransformer
    from probes.sequences import parse_sequence

    check_names([name for name in only if name != "formation"])
    paths = expand([Path(target) for target in targets])
    if len(paths) > 1 and (not only or "formation" in only):
        yield from _formation(paths, seed, assume)
    if list(only) == ["formation"]:
        return
    for number, path in enumerate(paths, 1):
        model = CountingTransformer.load(path, **assume)
        tokens = None if sequence is None else parse_sequence(sequence, model.config)
        for drawing in draw_all(model, only, Settings(sequence=tokens, seed=seed)):
            if len(paths) > 1:
                drawing.name = f"{number}-{model.config.name}-{drawing.name}"
            yield drawing


def _formation(paths: Sequence[Path], seed: int, assume: Mapping[str, Any]) -> Iterator[Drawing]:
    """One figure for each run that has several snapshots among the checkpoints."""
    from interp.classify.files import classify_file
    from interp.classify.formation import runs
    from interp.figures.formation import formation_figure

    found = runs([classify_file(path, quick=True, seed=seed, **assume) for path in paths])
    for number, formation in enumerate(found, 1):
        drawing = formation_figure(formation)
        drawing.name = "formation" if len(found) == 1 else f"formation-{number}"
        yield drawing


def _phase(sources: Sequence[str], only: Sequence[str]) -> Iterator[Drawing]:
    """Sweeps: folders or exported tables, drawn together, so that they can be subtracted from each other."""
    from interp.figures.sweeps import draw_all
    from interp.sweep.table import read_runs
    from models.errors import InterpError

    runs = read_runs(*sources)
    if not runs:
        raise InterpError("the sweep has no finished run yet; `interp sweep status DIR` says how far it is")
    return draw_all(runs, only)


def _paper(only: Sequence[str], sweeps: Sequence[str]) -> Iterator[Drawing]:
    from interp.figures.paper import PAPER, Sources, draw

    for name in only or [figure.name for figure in PAPER]:
        yield from draw(name, Sources(sweeps))


def _print_list() -> None:
    from interp.figures import introspection, paper, sweeps

    parts = (
        ("interp figures ckpt.pt", list(introspection.descriptions().items())),
        (
            "interp figures ckpt.snapshots/",
            [("formation", "Accuracy and both mechanism scores over the snapshots of a run.")],
        ),
        ("interp figures phase SWEEP", list(sweeps.FIGURES.items())),
        ("interp figures paper", [(figure.name, f"{figure.number}: {figure.title}.") for figure in paper.PAPER]),
    )
    for command, lines in parts:
        typer.echo(command)
        for name, line in lines:
            typer.echo(f"  {name:22} {line}")
