"""`interp train`: train a counting model by the published protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import INTERRUPTED, print_json, usage_errors, warn
from counting_interp.util.errors import CheckpointError
from counting_interp.util.files import OutputError, check_checkpoint_output, is_replaceable

if TYPE_CHECKING:
    from counting_interp.interp.cli.train_runs import Plan
    from counting_interp.models import CountingConfig, CountingTransformer
    from counting_interp.models.training import Recipe

MODEL_HELP = (
    "lin, lin+sftm, dot, dot+sftm, bos or bos+sftm; then, as wanted, +values +4heads +norm +gelu +positions +causal."
)
MAX_RUNS = 500  # a file with a lock each; a sweep has room for more
NEEDED = {"model": "--model", "d": "-d", "p": "-p"}
RECIPE = ("epochs", "sequences", "batch_size", "lr", "sampler", "weight_decay", "schedule", "validation")


def _models() -> list[str]:
    from counting_interp.models.config import VARIANTS

    return list(VARIANTS)


def train(
    ctx: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The checkpoint to write, .pt or .safetensors.")],
    model: Annotated[
        str | None, typer.Option("--model", help=MODEL_HELP, autocompletion=opt.completing(_models))
    ] = None,
    d: opt.Dimension = None,
    p: opt.Units = None,
    T: opt.Alphabet = 32,
    L: opt.Length = 10,
    layers: Annotated[int, typer.Option(help="Blocks, 1 or 2.")] = 1,
    seed: opt.Seed = 0,
    epochs: opt.Epochs = 500,
    sequences: Annotated[int, typer.Option(help="Sequences in an epoch.")] = 10_000,
    batch_size: Annotated[int, typer.Option(help="Sequences in a step.")] = 32,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 1e-3,
    sampler: Annotated[
        str, typer.Option(help="paper, published (what the authors trained with: no count of L) or uniform.")
    ] = "paper",
    weight_decay: Annotated[float, typer.Option(help="Weight decay of AdamW; 0 is the published Adam.")] = 0.0,
    schedule: Annotated[
        str, typer.Option(help="The learning rate: constant, or falling to 0 over the run, linear or cosine.")
    ] = "constant",
    validation: Annotated[int, typer.Option(help="Sequences to measure accuracy on.")] = 3000,
    frozen_embeddings: Annotated[
        bool, typer.Option("--frozen-embeddings", help="Embeddings stay random, they are not trained.")
    ] = False,
    published_classes: Annotated[bool, typer.Option("--published-classes", help="L + 1 logits, as published.")] = False,
    runs: Annotated[
        int, typer.Option(min=1, max=MAX_RUNS, help="Several runs, with seeds SEED, SEED+1, ...; the best is kept.")
    ] = 1,
    all_runs: Annotated[bool, typer.Option("--all-runs", help="Keep all of several runs, as NAME.seed-K.pt.")] = False,
    keep_best: Annotated[bool, typer.Option("--keep-best", help="Keep the best epoch instead of the last.")] = False,
    snapshots: Annotated[
        int, typer.Option(min=0, max=opt.MAX_SNAPSHOTS, help="Checkpoints at log-spaced steps, NAME.snapshots/.")
    ] = 0,
    checkpoint_every: Annotated[float, typer.Option(min=0, help="Seconds between two checkpoints.")] = 10.0,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume the checkpoint at -o, if there is one; it knows the other options."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the checkpoint at -o.")] = False,
    until_proved: Annotated[
        bool,
        typer.Option(
            "--until-proved", help="Then `interp repair` into NAME.proved.pt; exit code 1 if there is no proof."
        ),
    ] = False,
    time: Annotated[float, typer.Option("--time", min=0.001, help="Seconds of repair, with --until-proved.")] = 300.0,
    proof_time: Annotated[float | None, typer.Option(hidden=True, callback=opt.renamed("--time"))] = None,
    json: opt.Json = False,
) -> None:
    """Train a counting model by the published protocol; Ctrl-C leaves a checkpoint that --resume continues.

    The same options and seed give the same weights, bit by bit, however often the run was interrupted. A finished run
    is extended by --resume with more --epochs.
    """
    if not output.parent.is_dir():
        raise OutputError(output.parent, "does not exist; make this folder first")
    if not is_replaceable(output) and not output.is_dir():
        raise OutputError(output, "is no regular file; a training run needs one that it can read back")
    if not (resume and output.is_file()):  # one that is there is resumed, whatever its name
        check_checkpoint_output(output, overwrite=True)
    from counting_interp.interp.cli.train_runs import (
        Interrupted,
        check_affordable,
        check_snapshots,
        run_all,
        what_was_lost,
    )
    from counting_interp.interp.proof.repair.run import check_repairable
    from counting_interp.models import CountingTransformer

    chosen = dict(ctx.params)
    given = {name for name in chosen if (source := ctx.get_parameter_source(name)) and source.name != "DEFAULT"}
    plan = _plan(chosen, given)
    check_affordable(plan)
    if until_proved:
        check_repairable(plan.config)
    derived = [path for path in map(plan.path, plan.seeds) if path != output]
    if until_proved:
        derived += list(map(proved_path, (output, *map(plan.path, plan.seeds))))
    for path in derived:
        if path.is_symlink():
            raise OutputError(path, "is a link, and this run would write through it; remove it first")
    taken = [path for path in (output, *derived) if path.exists()]
    if taken and not (resume or overwrite):
        raise OutputError(taken[0], "exists; --resume continues it, --overwrite replaces it")
    check_snapshots(plan, overwrite)
    try:
        with plan.held():
            paths = run_all(plan)
            models = [CountingTransformer.load(path) for path in paths]
    except Interrupted as interruption:
        warn(str(interruption))
        raise typer.Exit(INTERRUPTED) from None
    for path, trained in zip(paths, models, strict=True):
        if lost := what_was_lost(trained):
            warn(f"{path}: {lost}")
        if until_proved or not json:
            typer.echo(f"{path}: {_in_a_line(trained)}", err=until_proved)
    if json and not until_proved:
        print_json([{"path": str(path), **_facts(trained)} for path, trained in zip(paths, models, strict=True)])
    if until_proved:
        from counting_interp.interp.cli.repair import repair_all

        targets = zip(models, map(proved_path, paths), strict=True)
        raise typer.Exit(repair_all(list(targets), time, 0, resume, json))


def _plan(chosen: dict[str, Any], given: set[str]) -> Plan:
    """What the options ask for; where a run is resumed, what it began with, and they must not contradict it.

    Args:
        chosen: every option, defaults included.
        given: those that were on the command line.
    """
    from counting_interp.interp.cli.train_runs import Plan, run_path
    from counting_interp.models import checkpoint
    from counting_interp.models.training.record import stored_run

    output, seeds = chosen["output"], range(chosen["seed"], chosen["seed"] + chosen["runs"])
    candidates = [output, *(run_path(output, seed) for seed in seeds if len(seeds) > 1)]
    there = next((path for path in candidates if path.exists()), None) if chosen["resume"] else None
    stored = there and stored_run(checkpoint.read(there))
    with usage_errors():
        if stored and there:
            _check_against(there, _options_of(stored.config, stored.recipe), chosen, given)
            recipe = replace(stored.recipe, epochs=chosen["epochs"]) if "epochs" in given else stored.recipe
            config = stored.config.replace(seed=seeds[0]) if len(seeds) > 1 else stored.config
            chosen["snapshots"] = chosen["snapshots"] if "snapshots" in given else stored.snapshots
        else:
            config, recipe = _from_options(chosen)
    return Plan(
        config,
        recipe,
        output,
        tuple(range(config.seed, config.seed + len(seeds))),
        keep_all=chosen["all_runs"],
        resume=chosen["resume"],
        every=chosen["checkpoint_every"],
        snapshots=chosen["snapshots"],
        overwrite=chosen["overwrite"],
        keep_best=chosen["keep_best"],
    )


def _from_options(chosen: dict[str, Any]) -> tuple[CountingConfig, Recipe]:
    from counting_interp.models import CountingConfig, task
    from counting_interp.models.training import Recipe

    if missing := [flag for name, flag in NEEDED.items() if chosen[name] is None]:
        raise ValueError(f"a new run needs {', '.join(missing)}")
    sizes = {name: chosen[name] for name in ("T", "L", "d", "p", "frozen_embeddings", "seed")}
    classes = chosen["L"] + chosen["published_classes"]
    config = CountingConfig.parse(chosen["model"], **sizes, n_layers=chosen["layers"], n_classes=classes)
    task.check_sampler(chosen["sampler"], T=config.T, L=config.L)
    return config, Recipe(**{name: chosen[name] for name in RECIPE})


def _options_of(config: CountingConfig, recipe: Recipe) -> dict[str, Any]:
    """The options that such a run is begun with."""
    sizes = {name: getattr(config, name) for name in ("T", "L", "d", "p", "frozen_embeddings", "seed")}
    others = {"model": config.name, "layers": config.n_layers, "published_classes": config.classes > config.L}
    return {**sizes, **others, **{name: getattr(recipe, name) for name in RECIPE}}


def _check_against(path: Path, began: dict[str, Any], chosen: dict[str, Any], given: set[str]) -> None:
    """Refuse an option that contradicts the run. More epochs do not; nor does a seed that begins several runs."""
    from counting_interp.models import CountingConfig

    if "model" in given:  # the same endings in another order are the same model
        sizes = {name: began[name] for name in ("T", "L", "d", "p")}
        chosen["model"] = CountingConfig.parse(chosen["model"], **sizes).name
    free = {"epochs"} if chosen["runs"] == 1 else {"epochs", "seed"}
    for name in sorted(given & began.keys() - free):
        if chosen[name] != began[name]:
            raise CheckpointError(
                path,
                f"belongs to another run: its {name} is {began[name]!r}, not {chosen[name]!r}; it is resumed without "
                "options, or with those it began with",
            )


def proved_path(path: Path) -> Path:
    """`ckpt.proved.pt` for `ckpt.pt`."""
    return path.with_name(f"{path.stem}.proved{path.suffix}")


def _in_a_line(model: CountingTransformer) -> str:
    """What was trained, and how well it counts."""
    from counting_interp.interp.cli.train_runs import accuracy_of

    config, last = model.config, model.metadata.get("last_accuracy")
    which = f"epoch {model.metadata['best_accuracy'].get('epoch')} of {last.get('epoch')} is kept, " if last else ""
    accuracy = f"{which}{100 * accuracy_of(model):.2f} % of positions right"
    return f"{config.name} d={config.d} p={config.p} seed={config.seed}, {accuracy}"


def _facts(model: CountingTransformer) -> dict[str, Any]:
    config, metadata = model.config, model.metadata
    sizes = {"model": config.name, "T": config.T, "L": config.L, "d": config.d, "p": config.p}
    known = {name: metadata[name] for name in ("step", "accuracy", "best_accuracy", "training", "sha256")}
    return {**sizes, "n_layers": config.n_layers, "seed": config.seed, "parameters": config.num_parameters, **known}
