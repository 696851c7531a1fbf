"""`interp report`: one HTML page about one or several checkpoints. `interp atlas`: a page to explore a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import USAGE, announce, print_json, progress_bar, spinner, warn
from counting_interp.interp.cli.many_files import FileOutcome, Loading, exit_code, expand, for_each
from counting_interp.util.errors import InterpError
from counting_interp.util.files import check_output, write_atomically

if TYPE_CHECKING:
    from counting_interp.interp.pages.report import ReportEntry

IN_FULL = 4  # more checkpoints than this are compared in a table, and only some of them shown in full


def report(
    files: opt.Files,
    *,
    output: opt.Page = Path("report.html"),
    overwrite: opt.Overwrite = False,
    show: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of many checkpoints, show this one in full; repeatable."),
    ] = None,
    json: opt.Json = False,
    loading: Loading,
    seed: opt.Seed = 0,
) -> None:
    """Write a page that opens with the network off: verdict, evidence, figures, and the checkpoint running in it."""
    paths = expand(files)
    load = loading.loader()
    with spinner("loading plotly"):
        from counting_interp.interp.pages import made_by
        from counting_interp.interp.pages.report import GENERATOR, report_entry_of, titles, write_report

    check_output(output, paths, overwrite, ours=made_by(GENERATOR))
    names = dict(zip(paths, titles(paths), strict=True))
    chosen = _in_full(list(names.values()), show or [])

    def measure(path: Path, full: bool = False) -> ReportEntry:
        return report_entry_of(path, title=names[path], seed=seed, full=full or names[path] in chosen, load=load)

    outcomes = for_each(files, measure, "measuring")
    good = [number for number, outcome in enumerate(outcomes) if outcome.result is not None]
    if good and not any(outcome.result and outcome.result.drawings for outcome in outcomes):
        first = outcomes[good[0]].path  # those to be shown in full were refused
        outcomes[good[0]] = FileOutcome(first, measure(first, full=True))
    entries = [outcome.result for outcome in outcomes if outcome.result is not None]
    if entries:
        shown, listed = ([entry for entry in entries if bool(entry.drawings) is full] for full in (True, False))
        write_report(shown, output, listed)
    if json:
        print_json([outcome.entry(_facts) for outcome in outcomes], report=str(output) if entries else None)
    elif entries:
        announce(output)
    raise typer.Exit(exit_code(outcomes))


def _facts(entry: ReportEntry) -> dict[str, Any]:
    """What the page says about a checkpoint, as `interp classify --json` has it, and which figures it shows."""
    figures = [drawing.name for drawing in entry.drawings]
    return {**entry.verdict.to_dict(), "proof": entry.verification or None, "figures": figures}


def _in_full(names: list[str], show: list[str]) -> set[str]:
    """Those that are named (by their title, or without its ending), or all of a few, or the first two of many."""
    if not show:
        return set(names if len(names) <= IN_FULL else names[:2])
    chosen = set()
    for wanted in show:
        matching = [name for name in names if name == wanted or Path(name).stem == wanted]
        if not matching:
            listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            warn(f"--show {wanted!r} is none of the checkpoints: {listed}")
            raise typer.Exit(USAGE)
        chosen.update(matching)
    return chosen


def atlas(
    sweeps: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SWEEP ...", help="Folders or exported tables; by default the bundled tables."),
    ] = None,
    output: opt.Page = Path("atlas.html"),
    overwrite: opt.Overwrite = False,
    json: opt.Json = False,
) -> None:
    """Write a page that opens with the network off: maps of accuracy, mechanism and proof over (d, p). Every cell has
    its runs, verdicts and evidence. As many models as fit (under 15 MB) run in the page."""
    from counting_interp.data import all_runs
    from counting_interp.interp.pages import made_by
    from counting_interp.interp.pages.atlas import GENERATOR, atlas_html, bundled, checkpoints_of, choose, load_live
    from counting_interp.interp.sweep.table import read_runs

    sources = sweeps or all_runs()
    check_output(output, sources, overwrite, ours=made_by(GENERATOR))
    runs = read_runs(*sources)
    if not runs:
        raise InterpError("the sweep has no finished run yet; `interp sweep status DIR` says how far it is")
    source = ", ".join(path.name for path in sweeps) if sweeps else "the bundled tables"
    there = checkpoints_of(sources)
    with progress_bar() as progress:
        chosen = progress.track(choose(runs, there), description="reading models")
        page = atlas_html(runs, load_live(chosen, there) if sweeps else bundled(runs), source)
    write_atomically(output, page.encode())
    if json:
        print_json([{"path": str(path)} for path in sources], atlas=str(output), runs=len(runs))
    else:
        announce(output)
