"""`interp figures`: draw checkpoints, sweeps, or the whole paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import (
    FAILED,
    USAGE,
    print_json,
    progress_bar,
    shows_progress,
    spinner,
    usage_errors,
    warn,
)
from counting_interp.interp.cli.many_files import assumptions, exit_code, expand, for_each, loading, shown, use_threads
from counting_interp.util.errors import CheckpointError, InterpError
from counting_interp.util.outputs import OutputFolder

if TYPE_CHECKING:
    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.sweep.table import RunRow
    from counting_interp.models.protocol import CountingModel, ModelSpec

DEFAULT = "checkpoints"


class WithDefault(TyperGroup):
    """`interp figures ckpt.pt` means `interp figures checkpoints ckpt.pt`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


def _names() -> list[str]:
    from counting_interp.interp.figures import NAMES

    return list(NAMES)


figures = typer.Typer(
    cls=WithDefault,
    no_args_is_help=True,
    help="Draw figures, and write their numbers as CSV. Images need Chrome or Chromium, HTML needs no browser.",
)

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only this figure; repeatable.", autocompletion=opt.completing(_names)),
]
Formats = Annotated[str, typer.Option("--format", help="One or more of html, png, svg, pdf, with commas.")]
Sweep = Annotated[
    list[Path] | None, typer.Option(metavar="SWEEP", help="More sweeps to draw from; repeatable.", readable=False)
]
Sweeps = Annotated[list[Path], typer.Argument(metavar="SWEEP", help="Folders or exported tables.", readable=False)]
ALL_FORMATS = "html,png,svg,pdf"
NoTitle = Annotated[
    bool,
    typer.Option("--no-title", help="Images without title, model and sizes above them: a paper's caption says it."),
]


@figures.command(DEFAULT)
def checkpoints(
    files: Annotated[list[Path] | None, opt.FilesArgument] = None,
    output: Output = Path("figures"),
    overwrite: opt.Overwrite = False,
    only: Only = None,
    formats: Formats = ALL_FORMATS,
    no_title: NoTitle = False,
    json: opt.Json = False,
    sequence: Annotated[str | None, typer.Option(help="For attention matrices, such as BBCBBBDEEE.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Say what each figure of each kind shows.")] = False,
    mixing: opt.AssumeMixing = None,
    softmax: opt.AssumeSoftmax = None,
    length: opt.AssumeLength = None,
    adapter: opt.OwnCode = None,
    seed: opt.Seed = 0,
    threads: opt.Threads = 1,
) -> None:
    """Draw checkpoints: what their probes measure, and how the mechanism formed where they are snapshots of a run.

    The word `checkpoints` may be left out: `interp figures ckpt.pt`.
    """
    if show_list:
        _print_list()
        return
    if not files:
        warn("say what to draw, as in `interp figures ckpt.pt`; --list explains")
        raise typer.Exit(USAGE)
    paths = expand(files)
    target = OutputFolder(output, paths, overwrite)
    use_threads(threads)
    with usage_errors():
        from counting_interp.interp.figures import check_names
        from counting_interp.interp.pages.export import parse_formats

        chosen = parse_formats(formats)
        wanted = list(only or ())
        check_names([name for name in wanted if name != "formation"])
        load = loading(adapter, assumptions(mixing, softmax, length))

        def draw(path: Path) -> list[Figure]:
            return [] if wanted == ["formation"] else _introspection(path, wanted, sequence, seed, load, len(paths))

        outcomes = for_each(files, draw, "drawing")
        drawings: list[Figure] = []
        if len(paths) > 1 and (not wanted or "formation" in wanted):
            drawings += _formation([outcome.path for outcome in outcomes if not outcome.error], seed, load)
        for number, outcome in enumerate(outcomes, 1):
            for drawing in outcome.result or ():
                if len(outcomes) > 1:
                    drawing.name = f"{number:0{len(str(len(outcomes)))}d}-{drawing.name}"
                drawings.append(drawing)
        refused = [outcome.entry(lambda _: {}) for outcome in outcomes if outcome.error]
        code = _write(drawings, target, chosen, json, no_title, refused) if drawings or json or not refused else 0
    raise typer.Exit(exit_code(outcomes) or code)


@figures.command()
def phase(
    sweeps: Sweeps,
    output: Output = Path("figures"),
    overwrite: opt.Overwrite = False,
    only: Only = None,
    formats: Formats = ALL_FORMATS,
    no_title: NoTitle = False,
    json: opt.Json = False,
) -> None:
    """Draw sweeps together: phase diagrams, parameter counts, and differences where two can be subtracted."""
    from counting_interp.interp.figures.phase import sweep_figures

    def draw(runs: Sequence[RunRow]) -> Iterator[Figure]:
        if not runs:
            raise InterpError("the sweep has no finished run yet; `interp sweep status DIR` says how far it is")
        return sweep_figures(runs, only or ())

    raise typer.Exit(_draw_sweeps(sweeps, draw, OutputFolder(output, sweeps, overwrite), formats, json, no_title))


@figures.command("map")
def mechanism_map(
    sweeps: Sweeps,
    output: Output = Path("figures"),
    overwrite: opt.Overwrite = False,
    only: Only = None,
    formats: Formats = ALL_FORMATS,
    no_title: NoTitle = False,
    json: opt.Json = False,
) -> None:
    """Draw which mechanism lives where in (d, p), from sweeps whose runs were classified."""
    from counting_interp.interp.figures.phase import map_figures
    from counting_interp.interp.sweep.statistics import mechanism_of

    def draw(runs: Sequence[RunRow]) -> Iterator[Figure]:
        if not any(mechanism_of(run) for run in runs):
            raise InterpError("no run of the sweep is classified yet; `interp sweep classify DIR` does that")
        return map_figures(runs, only or ())

    raise typer.Exit(_draw_sweeps(sweeps, draw, OutputFolder(output, sweeps, overwrite), formats, json, no_title))


@figures.command()
def paper(
    output: Output = Path("figures"),
    overwrite: opt.Overwrite = False,
    only: Only = None,
    formats: Formats = ALL_FORMATS,
    no_title: NoTitle = False,
    json: opt.Json = False,
    sweep: Sweep = None,
    llm: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Of `interp llm -o DIR`, for Figs. 6 and 7; repeatable.")
    ] = None,
    threads: opt.Threads = 1,
) -> None:
    """Draw every figure of the paper, from the bundled models and sweeps and from your own. The last line says how many
    were drawn, which are missing, and from how many runs."""
    target = OutputFolder(output, [*(sweep or ()), *(llm or ())], overwrite)
    use_threads(threads)
    with usage_errors():
        with spinner("loading plotly"):
            from counting_interp.interp.figures.paper import PAPER, MissingDataError, Sources, draw, find, summary
            from counting_interp.interp.pages.export import parse_formats

        chosen = parse_formats(formats)
        names = only or [figure.name for figure in PAPER]
        sources = Sources(sweep or (), llm or ())
        drawings: list[Figure] = []
        missing: dict[str, str] = {}
        with progress_bar() as progress:
            for name in progress.track(names, description="drawing"):
                try:
                    drawings += draw(name, sources)
                except MissingDataError as error:
                    missing[find(name).file_name] = str(error)
        code = _write(drawings, target, chosen, json, no_title)
        for name, reason in missing.items():
            target.write(f"{name}-missing.txt", f"{reason}\n".encode())
            warn(f"{name}: {reason}")
        warn(summary(len(drawings), list(missing), sources))
        raise typer.Exit(code)


def _draw_sweeps(
    sweeps: Sequence[Path],
    draw: Callable[[Sequence[RunRow]], Iterator[Figure]],
    target: OutputFolder,
    formats: str,
    as_json: bool,
    no_title: bool,
) -> int:
    with usage_errors():
        from counting_interp.interp.pages.export import parse_formats
        from counting_interp.interp.sweep.table import read_runs

        chosen = parse_formats(formats)
        return _write(draw(read_runs(*sweeps)), target, chosen, as_json, no_title)


def _write(
    drawings: Iterator[Figure] | Sequence[Figure],
    target: OutputFolder,
    formats: Sequence[str],
    as_json: bool,
    no_title: bool,
    refused: Sequence[dict[str, Any]] = (),
) -> int:
    """Write and list the files; 1 where nothing that was asked for could be written.

    Args:
        refused: entries of the JSON document for checkpoints that could not be drawn.
    """
    from counting_interp.interp.pages.export import write

    drawings = list(drawings)
    with progress_bar() as progress:
        done = write(
            drawings,
            target,
            formats,
            titles=not no_title,
            watch=lambda figures: progress.track(figures, description="making images"),
        )
    if as_json:
        print_json([*(_entry(drawing, done.paths) for drawing in drawings), *refused], missing=done.missing)
    for path in () if as_json else done.paths:
        typer.echo(path)
    if done.paths and not as_json and shows_progress():
        index = done.paths[-1].resolve().as_uri()
        typer.echo(f"wrote {len(drawings)} figures; open all of them in a browser: {index}", err=True)
    if done.missing is None:
        return 0
    warn(done.missing)
    return 0 if "html" in formats else FAILED


def _entry(drawing: Figure, paths: Sequence[Path]) -> dict[str, Any]:
    """What `--json` says about a figure: whose it is, and its files."""
    files = [str(path) for path in paths if path.stem == drawing.name]
    return {"figure": drawing.name, "title": drawing.title, "about": drawing.about, "files": files}


def _introspection(
    path: Path,
    only: Sequence[str],
    sequence: str | None,
    seed: int,
    load: Callable[[Path], CountingModel],
    n_files: int,
) -> list[Figure]:
    """The figures of one checkpoint; with several, the model's name in front."""
    from counting_interp.interp.figures import Settings, figures_of
    from counting_interp.probes.designs import parse_sequence

    model = load(path)
    _say_what_is_left_out(path, model.config, only)
    tokens = None if sequence is None else parse_sequence(sequence, model.config)
    names = [name for name in only if name != "formation"]
    drawings = list(figures_of(model, names, Settings(sequence=tokens, seed=seed)))
    for drawing in drawings:
        drawing.about = f"{path.stem}: {drawing.about}"
    for drawing in drawings if n_files > 1 else ():
        drawing.name = f"{re.sub('[^A-Za-z0-9_.+-]', '-', model.config.name)[:60]}-{drawing.name}"
    return drawings


def _say_what_is_left_out(path: Path, config: ModelSpec, only: Sequence[str]) -> None:
    """What is too large for this model, and why what was asked for by name makes no sense on it."""
    from counting_interp.interp.figures import SHEETS
    from counting_interp.probes.catalogue import CATALOGUE

    named = {SHEETS.get(name, name) for name in only}
    for probe in CATALOGUE:
        reason = probe.why_not(config) if probe.name in named else None
        if reason is None and probe.applies_to(config) and (not only or probe.name in named):
            reason = probe.too_large(config)
        if reason is not None:
            warn(f"{shown(path)}: {reason}")


def _formation(paths: Sequence[Path], seed: int, load: Callable[[Path], CountingModel]) -> Iterator[Figure]:
    """One figure for each run that has several snapshots among the checkpoints."""
    from counting_interp.interp.figures.conflict import formation_figure
    from counting_interp.interp.verdict.files import classify_file
    from counting_interp.interp.verdict.formation import runs

    verdicts = []
    for path in paths:
        with suppress(CheckpointError):
            verdicts.append(classify_file(path, load=load, quick=True, seed=seed))
    formations = runs(verdicts)
    for number, formation in enumerate(formations, 1):
        drawing = formation_figure(formation)
        drawing.name = "formation" if len(formations) == 1 else f"formation-{number}"
        yield drawing


def _print_list() -> None:
    from counting_interp.interp.figures import descriptions, paper, phase

    parts = (
        ("interp figures ckpt.pt", list(descriptions().items())),
        (
            "interp figures ckpt.snapshots/",
            [("formation", "Accuracy and the three shares over the snapshots of a run.")],
        ),
        ("interp figures phase SWEEP", list(phase.FIGURES.items())),
        ("interp figures map SWEEP", list(phase.MAPS.items())),
        ("interp figures paper", [(figure.name, f"{figure.number}: {figure.title}.") for figure in paper.PAPER]),
    )
    for command, lines in parts:
        typer.echo(command)
        for name, line in lines:
            typer.echo(f"  {name:22} {line}")
