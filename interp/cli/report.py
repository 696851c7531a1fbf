"""`interp report`: one HTML page about one checkpoint, or about several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counting_interp.interp.cli.console import USAGE, announce, print_json, warn
from counting_interp.interp.cli.many_files import (
    AssumeLength,
    AssumeMixing,
    AssumeSoftmax,
    FileOutcome,
    Files,
    Json,
    Overwrite,
    OwnCode,
    Seed,
    Threads,
    assumptions,
    exit_code,
    expand,
    for_each,
    loading,
    use_threads,
)
from counting_interp.util.outputs import check_output

if TYPE_CHECKING:
    from counting_interp.interp.pages.report_entry import ReportEntry

IN_FULL = 4  # more checkpoints than this are compared in a table, and only some of them shown in full


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    files: Files,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page.")] = Path("report.html"),
    overwrite: Overwrite = False,
    show: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of many checkpoints, show this one in full; repeatable."),
    ] = None,
    json: Json = False,
    mixing: AssumeMixing = None,
    softmax: AssumeSoftmax = None,
    length: AssumeLength = None,
    adapter: OwnCode = None,
    seed: Seed = 0,
    threads: Threads = 1,
) -> None:
    """Write a page that opens with the network off: verdict, evidence, figures, and the checkpoint running in it."""
    paths = expand(files)
    use_threads(threads)
    from counting_interp.interp.pages.report import GENERATOR, write_report
    from counting_interp.interp.pages.report_entry import report_entry_of, titles

    check_output(output, paths, overwrite, ours=lambda head: f'name="generator" content="{GENERATOR}"'.encode() in head)
    names = dict(zip(paths, titles(paths), strict=True))
    chosen = _in_full(list(names.values()), show or [])
    load = loading(adapter, assumptions(mixing, softmax, length))

    def measure(path: Path, full: bool = False) -> ReportEntry:
        return report_entry_of(path, title=names[path], seed=seed, full=full or names[path] in chosen, load=load)

    outcomes = for_each(files, measure, "measuring")
    good = [number for number, outcome in enumerate(outcomes) if outcome.result is not None]
    if good and not any(outcome.result and outcome.result.drawings for outcome in outcomes):
        first = outcomes[good[0]].path  # those to be shown in full were refused
        outcomes[good[0]] = FileOutcome(first, measure(first, full=True))
    subjects = [outcome.result for outcome in outcomes if outcome.result is not None]
    if subjects:
        write_report([one for one in subjects if one.drawings], output, [one for one in subjects if not one.drawings])
    if json:
        print_json([outcome.entry(_facts) for outcome in outcomes], report=str(output) if subjects else None)
    elif subjects:
        announce(output)
    raise typer.Exit(exit_code(outcomes))


def _facts(subject: ReportEntry) -> dict[str, Any]:
    """What the page says about a checkpoint, as `interp classify --json` has it, and which figures it shows."""
    figures = [drawing.name for drawing in subject.drawings]
    return {**subject.verdict.to_dict(), "verification": subject.verification or None, "figures": figures}


def _in_full(names: list[str], show: list[str]) -> set[str]:
    """Those that are named (by their title, or without its ending), or all of a few, or the first two of many."""
    if not show:
        return set(names if len(names) <= IN_FULL else names[:2])
    chosen = set()
    for wanted in show:
        found = [name for name in names if name == wanted or Path(name).stem == wanted]
        if not found:
            listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            warn(f"--show {wanted!r} is none of the checkpoints: {listed}")
            raise typer.Exit(USAGE)
        chosen.update(found)
    return chosen
