"""`interp figures`: draw checkpoints, sweeps, or the whole paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from counting_interp.interp.cli.many_files import Loading, exit_code, expand, for_each, shown
from counting_interp.util.errors import CheckpointError, InterpError
from counting_interp.util.files import OutputFolder

if TYPE_CHECKING:
    from counting_interp.interp.figures.figure import Figure
    from counting_interp.interp.sweep.table import RunRow
    from counting_interp.models.protocol import CountingModel, ModelSpec

DEFAULT = "checkpoints"
FORMATION = "formation"  # the one figure of several checkpoints together


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
Sweeps = Annotated[list[Path], typer.Argument(metavar="SWEEP", help="Folders or exported tables.", readable=False)]


@dataclass(frozen=True)
class Output:
    """Options of every command that draws: which figures, in which files."""

    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")] = Path("figures")
    overwrite: opt.Overwrite = False
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only these figures, with commas.", autocompletion=opt.completing(_names)),
    ] = None
    formats: Annotated[str, typer.Option("--format", help="One or more of html, png, svg, pdf, with commas.")] = (
        "html,png,svg,pdf"
    )
    no_title: Annotated[
        bool,
        typer.Option("--no-title", help="Images without title, model and sizes above them: a paper's caption says it."),
    ] = False
    json: opt.Json = False

    def folder(self, inputs: Iterable[Path]) -> OutputFolder:
        """Where the files go. Refused where they would replace an input or what others made."""
        return OutputFolder(self.output, list(inputs), self.overwrite)

    @property
    def names(self) -> list[str]:
        """The figures of `--only`, which may also be repeated; empty for all."""
        return [name.strip() for names in self.only or () for name in names.split(",")]

    def chosen_formats(self) -> tuple[str, ...]:
        """Raises ValueError for a format that there is not."""
        from counting_interp.interp.pages.export import parse_formats

        return parse_formats(self.formats)

    def write(self, drawings: Iterable[Figure], target: OutputFolder, refused: Sequence[dict[str, Any]] = ()) -> int:
        """Write and list the files.

        Args:
            refused: entries of the JSON document for checkpoints that could not be drawn.

        Returns:
            The exit code: 1 where nothing that was asked for could be written.
        """
        from counting_interp.interp.pages.export import write

        formats, drawings = self.chosen_formats(), list(drawings)
        with progress_bar() as progress:
            done = write(
                drawings,
                target,
                formats,
                titles=not self.no_title,
                watch=lambda figures: progress.track(figures, description="making images"),
            )
        if self.json:
            print_json([*(_entry(drawing, done.paths) for drawing in drawings), *refused], missing=done.missing)
        else:
            for path in done.paths:
                typer.echo(path)
            if done.paths and shows_progress():
                index = done.paths[-1].resolve().as_uri()
                typer.echo(f"wrote {len(drawings)} figures; open all of them in a browser: {index}", err=True)
        if done.missing is None:
            return 0
        warn(done.missing)
        return 0 if "html" in formats else FAILED


def _entry(drawing: Figure, paths: Sequence[Path]) -> dict[str, Any]:
    """A figure in the JSON document: its model, and its files."""
    files = [str(path) for path in paths if path.stem == drawing.name]
    return {"figure": drawing.name, "title": drawing.title, "about": drawing.about, "files": files}


@figures.command(DEFAULT)
def checkpoints(
    files: Annotated[list[Path] | None, opt.FilesArgument] = None,
    *,
    output: Output,
    sequence: Annotated[str | None, typer.Option(help="For attention matrices, such as BBCBBBDEEE.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="Say what each figure of each kind shows.")] = False,
    loading: Loading,
    seed: opt.Seed = 0,
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
    target = output.folder(paths)
    load = loading.loader()
    with usage_errors():
        from counting_interp.interp.figures import check_names

        output.chosen_formats()
        wanted = output.names
        names = [name for name in wanted if name != FORMATION]
        check_names(names)

        def draw(path: Path) -> list[Figure]:
            if wanted == [FORMATION]:
                return []
            number = f"{paths.index(path) + 1:0{len(str(len(paths)))}d}" if len(paths) > 1 else None
            return _introspection(path, load(path), names, sequence, seed, number)

        outcomes = for_each(files, draw, "drawing")
        drawings: list[Figure] = []
        if len(paths) > 1 and (not wanted or FORMATION in wanted):
            drawings += _formation([outcome.path for outcome in outcomes if not outcome.error], seed, load)
        drawings += [drawing for outcome in outcomes for drawing in outcome.result or ()]
        refused = [outcome.entry(lambda _: {}) for outcome in outcomes if outcome.error]
        code = output.write(drawings, target, refused) if drawings or output.json or not refused else 0
    raise typer.Exit(exit_code(outcomes) or code)


def _introspection(
    path: Path, model: CountingModel, only: Sequence[str], sequence: str | None, seed: int, number: str | None
) -> list[Figure]:
    """The figures of one checkpoint. Of several checkpoints, with its `number` and the model's name in front."""
    from counting_interp.interp.figures import Settings, figures_of
    from counting_interp.probes.designs import parse_sequence

    _warn_about_left_out(path, model.config, only)
    tokens = None if sequence is None else parse_sequence(sequence, model.config)
    drawings = list(figures_of(model, only, Settings(sequence=tokens, seed=seed)))
    for drawing in drawings:
        drawing.about = f"{path.stem}: {drawing.about}"
        if number is not None:
            drawing.name = f"{number}-{re.sub('[^A-Za-z0-9_.+-]', '-', model.config.name)[:60]}-{drawing.name}"
    return drawings


def _warn_about_left_out(path: Path, config: ModelSpec, only: Sequence[str]) -> None:
    """Say which probe is too large for this model, and which of those asked for by name does not apply to it."""
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
    from counting_interp.interp.figures.formation import formation_figure
    from counting_interp.interp.verdict.files import classify_file, runs

    verdicts = []
    for path in paths:
        with suppress(CheckpointError):
            verdicts.append(classify_file(path, load=load, quick=True, seed=seed))
    formations = runs(verdicts)
    for number, formation in enumerate(formations, 1):
        drawing = formation_figure(formation)
        drawing.name = FORMATION if len(formations) == 1 else f"{FORMATION}-{number}"
        yield drawing


@figures.command()
def phase(sweeps: Sweeps, *, output: Output) -> None:
    """Draw sweeps together: phase diagrams, parameter counts, and differences where two can be subtracted."""
    from counting_interp.interp.figures.phase import sweep_figures

    advice = "the sweep has no finished run yet; `interp sweep status DIR` says how far it is"
    _draw_sweeps(sweeps, output, sweep_figures, bool, advice)


@figures.command("map")
def mechanism_map(sweeps: Sweeps, *, output: Output) -> None:
    """Draw which mechanism lives where in (d, p), from sweeps whose runs were classified."""
    from counting_interp.interp.figures.phase import map_figures
    from counting_interp.interp.sweep.statistics import mechanism_of

    advice = "no run of the sweep is classified yet; `interp sweep classify DIR` does that"
    _draw_sweeps(sweeps, output, map_figures, lambda runs: any(map(mechanism_of, runs)), advice)


def _draw_sweeps(
    sweeps: Sequence[Path],
    output: Output,
    draw: Callable[[Sequence[RunRow], Sequence[str]], Iterator[Figure]],
    drawable: Callable[[Sequence[RunRow]], bool],
    advice: str,
) -> None:
    """Draw the runs of sweeps; an InterpError with `advice` where they are not `drawable`."""
    target = output.folder(sweeps)
    with usage_errors():
        from counting_interp.interp.sweep.table import read_runs

        output.chosen_formats()
        runs = read_runs(*sweeps)
        if not drawable(runs):
            raise InterpError(advice)
        raise typer.Exit(output.write(draw(runs, output.names), target))


@figures.command()
def paper(
    *,
    output: Output,
    sweep: Annotated[
        list[Path] | None, typer.Option(metavar="SWEEP", help="More sweeps to draw from; repeatable.", readable=False)
    ] = None,
    llm: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Of `interp llm -o DIR`, for Figs. 6 and 7; repeatable.")
    ] = None,
    threads: opt.Threads = 1,
) -> None:
    """Draw every figure of the paper, from the bundled models and sweeps and from your own. The last line says how many
    were drawn, which are missing, and from how many runs."""
    target = output.folder([*(sweep or ()), *(llm or ())])
    with usage_errors():
        with spinner("loading plotly"):
            import torch

            from counting_interp.interp.figures.paper import PAPER, MissingDataError, Sources, draw, find, summary

        torch.set_num_threads(threads)
        output.chosen_formats()
        names = output.names or [figure.name for figure in PAPER]
        sources = Sources(sweep or (), llm or ())
        drawings: list[Figure] = []
        missing: dict[str, str] = {}
        with progress_bar() as progress:
            for name in progress.track(names, description="drawing"):
                try:
                    drawings += draw(name, sources)
                except MissingDataError as error:
                    missing[find(name).file_name] = str(error)
        code = output.write(drawings, target)
        for name, reason in missing.items():
            target.write(f"{name}-missing.txt", f"{reason}\n".encode())
            warn(f"{name}: {reason}")
        warn(summary(len(drawings), list(missing), sources))
        raise typer.Exit(code)


def _print_list() -> None:
    from counting_interp.interp.figures import descriptions, paper, phase

    formation = {FORMATION: "Accuracy and the three shares over the snapshots of a run."}
    lists = {
        "interp figures ckpt.pt": descriptions(),
        "interp figures ckpt.snapshots/": formation,
        "interp figures phase SWEEP": phase.FIGURES,
        "interp figures map SWEEP": phase.MAPS,
        "interp figures paper": {figure.name: f"{figure.number}: {figure.title}." for figure in paper.PAPER},
    }
    for command, shows in lists.items():
        typer.echo(command)
        for name, line in shows.items():
            typer.echo(f"  {name:22} {line}")
