"""`interp llm`: ask a large language model to count, as the paper's appendix does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import print_json, progress_bar, usage_errors, warn
from counting_interp.util.errors import printable
from counting_interp.util.files import OutputFolder
from counting_interp.util.text import columns

if TYPE_CHECKING:
    from counting_interp.interp.llm.evaluation import Cost
    from counting_interp.interp.llm.prompts import Query
    from counting_interp.interp.llm.result import Evaluation

TABLES = ("answers", "accuracy", "confusion")


def llm(
    model: Annotated[str, typer.Option("--model", help="A folder, smollm2, or a name in the Hugging Face cache.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for answers, tables and figures.")],
    dtype: Annotated[
        str | None,
        typer.Option(help="float16, bfloat16, float32 or auto (as stored). [default: float16; float32 on a CPU]"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps, ...")] = "auto",
    lists: Annotated[int, typer.Option(min=1, max=10_000, help="Lists per category and sampling.")] = 100,
    categories: Annotated[str, typer.Option(help="Names from the prompt file, with commas, or all.")] = "all",
    prompts: Annotated[str, typer.Option(help="Names from the prompt file, with commas, or all.")] = "all",
    sampling: Annotated[str, typer.Option(help="uniform, paper, published, with commas.")] = "uniform,paper",
    length: Annotated[int, typer.Option(min=2, max=1000, help="Items in a list.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the lists.")] = 0,
    batch_size: Annotated[str, typer.Option(help="Prompts at a time, or auto.")] = "auto",
    generate: Annotated[bool, typer.Option(help="Also read the number that the model writes.")] = True,
    prompt_file: Annotated[Path | None, typer.Option(help="Prompts and categories of your own (JSON).")] = None,
    formats: Annotated[str, typer.Option("--format", help="Figures: html, png, svg, pdf.")] = "html",
    overwrite: opt.Overwrite = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show one prompt of each kind and stop.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Ask a language model to count the items of lists, and see where it fails.

    An interrupted run resumes when the same command is given again.
    """
    with usage_errors():
        from counting_interp.interp.llm.prompts import all_queries, read_prompts
        from counting_interp.interp.pages.export import parse_formats

        book = read_prompts(prompt_file).select(_names(categories), _names(prompts))
        samplings = _names(sampling) or ["uniform", "paper"]
        size = _batch_size(batch_size)
        wanted = parse_formats(formats)
        queries = all_queries(book, samplings, lists=lists, length=length, seed=seed)
        if dry_run:
            _show_prompts(queries)
            return
        target = OutputFolder(output, [prompt_file] if prompt_file else (), overwrite)
        target.check(f"{name}.csv" for name in TABLES)
        from counting_interp.interp.llm.model import load_model

        network, tokenizer = load_model(model, dtype=dtype, device=device)

    from counting_interp.interp.llm.evaluation import Watcher, evaluate

    with progress_bar() as bar:
        task = bar.add_task("asking", total=None)
        result = evaluate(
            network,
            tokenizer,
            name=Path(model).name or model,
            book=book,
            samplings=samplings,
            lists=lists,
            length=length,
            seed=seed,
            batch_size=size,
            generate=generate,
            folder=output,
            watcher=Watcher(_print_cost, lambda done, total: bar.update(task, completed=done, total=total)),
        )
    _write(result, target, wanted)
    if as_json:
        from counting_interp.interp.llm.result import accuracy_rows

        slopes = {measure: result.slope(measure=measure) for measure in result.measures}
        fields = {measure: slope and asdict(slope) for measure, slope in slopes.items()}
        print_json(accuracy_rows(result), model=result.model, settings=result.settings, slopes=fields)
    else:
        from counting_interp.interp.llm.result import accuracy_table

        typer.echo(columns(accuracy_table(result)))
        typer.echo(_counting(result))


def _names(text: str) -> list[str] | None:
    """`a,b` -> ["a", "b"]; `all` -> None."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    return None if names == ["all"] else names


def _batch_size(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"--batch-size is a number from 1 or auto, got {text!r}")
    return int(text)


def _show_prompts(queries: list[Query]) -> None:
    """One question of each cell, with its true answer."""
    shown = {(query.sampling, query.category, query.prompt): query for query in reversed(queries)}
    for (sampling, category, prompt), query in reversed(shown.items()):
        typer.echo(f"{sampling}, {category}, {prompt} (answer: {query.truth})\n  {printable(repr(query.text), 10_000)}")
    texts = {query.text for query in queries}
    typer.echo(f"{len(queries):,} questions, {len(texts):,} different prompts, {sum(map(len, texts)):,} characters")


def _print_cost(cost: Cost) -> None:
    before = f" ({cost.answered:,} answered before)" if cost.answered else ""
    warn(f"{cost.prompts:,} prompts{before}, about {cost.tokens:,} tokens to read, {cost.batch_size} at a time")


def _write(result: Evaluation, target: OutputFolder, formats: tuple[str, ...]) -> None:
    from counting_interp.interp.figures.confusion import all_figures
    from counting_interp.interp.llm.result import accuracy_csv, answers_csv, confusion_csv
    from counting_interp.interp.pages.export import write

    for name, table in zip(TABLES, (answers_csv, accuracy_csv, confusion_csv), strict=True):
        target.write(f"{name}.csv", table(result).encode())
    export = write(all_figures(result), target.folder / "figures", formats)
    if export.missing:
        warn(export.missing)
    warn(f"answers, tables and figures are in {printable(str(target.folder))}")


def _counting(result: Evaluation) -> str:
    """The gate before any mechanism: does the answer grow with the count?"""
    from counting_interp.interp.llm.result import COUNTS

    slope, name = result.slope(), printable(result.model)
    if slope is None:
        return "no slope of the answer over the true count: all lists have the same count; ask about more of them"
    said = f"slope of the answer over the true count: {slope}; {name}"
    if slope.counts:
        return f"{said} counts"
    return f"{said} does not count (that takes {COUNTS}), so there is no mechanism to look for"
