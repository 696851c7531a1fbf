"""`interp train`: train a counting model by the published protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import INTERRUPTED, print_json, usage_errors, warn
from counting_interp.util.errors import CheckpointError
from counting_interp.util.files import OutputError, check_checkpoint_output, is_replaceable
from counting_interp.util.text import sampled

if TYPE_CHECKING:
    from counting_interp.interp.cli.train_runs import Plan
    from counting_interp.models import CountingConfig, CountingTransformer
    from counting_interp.models.training import Recipe

MODEL_HELP = (
    "lin, lin+sftm, dot, dot+sftm, bos or bos+sftm; then, as wanted, +values +4heads +norm +gelu +positions +causal."
)
MAX_RUNS = 500  # a file with a lock each; a sweep has room for more
NEEDED = {"model": "--model", "d": "-d", "p": "-p"}
SIZES = ("T", "L", "d", "p", "frozen_embeddings", "seed")
RECIPE = ("epochs", "sequences", "batch_size", "lr", "sampler", "weight_decay", "schedule", "validation")


def _models() -> list[str]:
    from counting_interp.models.config import VARIANTS

    return list(VARIANTS)


@dataclass(frozen=True)
class Training:
    """Options that say which model is trained, and how."""

    model: Annotated[str | None, typer.Option("--model", help=MODEL_HELP, autocompletion=opt.completing(_models))] = (
        None
    )
    d: opt.Dimension = None
    p: opt.Units = None
    T: opt.Alphabet = 32
    L: opt.Length = 10
    layers: Annotated[int, typer.Option(help="Blocks, 1 or 2.")] = 1
    seed: opt.Seed = 0
    epochs: Annotated[int, typer.Option(max=opt.MAX_EPOCHS, help="Epochs in all, each of fresh sequences.")] = 500
    sequences: Annotated[int, typer.Option(help="Sequences in an epoch.")] = 10_000
    batch_size: Annotated[int, typer.Option(help="Sequences in a step.")] = 32
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 1e-3
    sampler: Annotated[
        str, typer.Option(help="paper, published (what the authors trained with: no count of L) or uniform.")
    ] = "paper"
    weight_decay: Annotated[float, typer.Option(help="Weight decay of AdamW; 0 is the published Adam.")] = 0.0
    schedule: Annotated[
        str, typer.Option(help="The learning rate: constant, or falling to 0 over the run, linear or cosine.")
    ] = "constant"
    validation: Annotated[int, typer.Option(help="Sequences to measure accuracy on.")] = 3000
    frozen_embeddings: Annotated[
        bool, typer.Option("--frozen-embeddings", help="Embeddings stay random, they are not trained.")
    ] = False
    published_classes: Annotated[bool, typer.Option("--published-classes", help="L + 1 logits, as published.")] = False

    def new(self) -> tuple[CountingConfig, Recipe]:
        """Raises ValueError for what no model or training can have."""
        from counting_interp.models import CountingConfig, task
        from counting_interp.models.training import Recipe

        if missing := [flag for name, flag in NEEDED.items() if getattr(self, name) is None]:
            raise ValueError(f"a new run needs {', '.join(missing)}")
        sizes = {name: getattr(self, name) for name in SIZES}
        classes = self.L + self.published_classes
        config = CountingConfig.parse(str(self.model), **sizes, n_layers=self.layers, n_classes=classes)
        task.check_sampler(self.sampler, T=config.T, L=config.L)
        return config, Recipe(**{name: getattr(self, name) for name in RECIPE})

    @classmethod
    def of(cls, config: CountingConfig, recipe: Recipe) -> Training:
        """The options that such a run is begun with."""
        sizes = {name: getattr(config, name) for name in SIZES} | {name: getattr(recipe, name) for name in RECIPE}
        classes = config.classes > config.L
        return cls(**sizes, model=config.name, layers=config.n_layers, published_classes=classes)

    def check_against(self, path: Path, began: Training, given: set[str]) -> None:
        """Refuse a `given` option that contradicts the run at `path`."""
        from counting_interp.models import CountingConfig

        for name in sorted(given & set(vars(began))):
            wanted = getattr(self, name)
            if name == "model":  # the same endings in another order are the same model
                wanted = CountingConfig.parse(wanted, T=began.T, L=began.L, d=began.d, p=began.p).name
            if wanted != getattr(began, name):
                raise CheckpointError(
                    path,
                    f"belongs to another run: its {name} is {getattr(began, name)!r}, not {wanted!r}; it is resumed "
                    "without options, or with those it began with",
                )


@dataclass(frozen=True)
class Files:
    """Options that say which files a run leaves."""

    output: opt.Checkpoint
    runs: Annotated[
        int, typer.Option(min=1, max=MAX_RUNS, help="Several runs, with seeds SEED, SEED+1, ...; the best is kept.")
    ] = 1
    all_runs: Annotated[bool, typer.Option("--all-runs", help="Keep all of several runs, as NAME.seed-K.pt.")] = False
    keep_best: Annotated[bool, typer.Option("--keep-best", help="Keep the best epoch instead of the last.")] = False
    snapshots: Annotated[
        int, typer.Option(min=0, max=opt.MAX_SNAPSHOTS, help="Checkpoints at log-spaced steps, NAME.snapshots/.")
    ] = 0
    checkpoint_every: Annotated[float, typer.Option(min=0, help="Seconds between two checkpoints.")] = 10.0
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume the checkpoint at -o, if there is one; it knows the other options."),
    ] = False
    overwrite: opt.OverwriteCheckpoint = False

    def path(self, seed: int) -> Path:
        """Where the run of a seed is written while it runs, and afterwards if all are kept."""
        one_of_several = f"{self.output.stem}.seed-{seed}{self.output.suffix}"
        return self.output if self.runs == 1 else self.output.with_name(one_of_several)


def train(
    ctx: typer.Context,
    *,
    training: Training,
    files: Files,
    until_proved: Annotated[
        bool,
        typer.Option(
            "--until-proved", help="Then `interp repair` into NAME.proved.pt; exit code 1 if there is no proof."
        ),
    ] = False,
    time: Annotated[float, typer.Option("--time", min=0.001, help="Seconds of repair, with --until-proved.")] = 300.0,
    json: opt.Json = False,
) -> None:
    """Train a counting model by the published protocol; Ctrl-C leaves a checkpoint that --resume continues.

    The same options and seed give the same weights, bit by bit, however often the run was interrupted. A finished run
    is extended by --resume with more --epochs.
    """
    output, resume = files.output, files.resume
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

    given = {name for name in ctx.params if (source := ctx.get_parameter_source(name)) and source.name != "DEFAULT"}
    plan = _plan(training, files, given)
    check_affordable(plan)
    derived = [path for path in plan.paths if path != output]
    if until_proved:
        check_repairable(plan.config)
        derived += map(proved_path, (output, *plan.paths))
    for path in derived:
        if path.is_symlink():
            raise OutputError(path, "is a link, and this run would write through it; remove it first")
    taken = [path for path in (output, *derived) if path.exists()]
    if taken and not (resume or files.overwrite):
        raise OutputError(taken[0], "exists; --resume continues it, --overwrite replaces it")
    check_snapshots(plan)
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


def _plan(training: Training, files: Files, given: set[str]) -> Plan:
    """What the options ask for; where a run is resumed, what it began with.

    Args:
        given: names of the options that were on the command line. They must not contradict a run that is resumed.
    """
    from counting_interp.interp.cli.train_runs import Plan
    from counting_interp.models import checkpoint
    from counting_interp.models.training.record import stored_run

    paths = [files.output, *map(files.path, range(training.seed, training.seed + files.runs))]
    there = next((path for path in paths if path.exists()), None) if files.resume else None
    stored = there and stored_run(checkpoint.read(there))
    with usage_errors():
        if stored and there:
            free = {"epochs"} if files.runs == 1 else {"epochs", "seed"}  # a run may be extended, or be one of several
            training.check_against(there, Training.of(stored.config, stored.recipe), given - free)
            config, recipe = stored.config, stored.recipe
            if "epochs" in given:
                recipe = replace(recipe, epochs=training.epochs)
            if files.runs > 1:
                config = config.replace(seed=training.seed)
            if "snapshots" not in given:
                files = replace(files, snapshots=stored.snapshots)
        else:
            config, recipe = training.new()
    return Plan(config, recipe, files)


def proved_path(path: Path) -> Path:
    """`ckpt.proved.pt` for `ckpt.pt`."""
    return path.with_name(f"{path.stem}.proved{path.suffix}")


def _in_a_line(model: CountingTransformer) -> str:
    """What was trained, and how well it counts."""
    from counting_interp.interp.cli.train_runs import accuracy_of

    config, last = model.config, model.metadata.get("last_accuracy")
    which = f"epoch {model.metadata['best_accuracy'].get('epoch')} of {last.get('epoch')} is kept, " if last else ""
    accuracy = f"{which}{sampled(accuracy_of(model))} of positions right"
    return f"{config.name} d={config.d} p={config.p} seed={config.seed}, {accuracy}"


def _facts(model: CountingTransformer) -> dict[str, Any]:
    config, metadata = model.config, model.metadata
    sizes = {"model": config.name, "T": config.T, "L": config.L, "d": config.d, "p": config.p}
    known = {name: metadata[name] for name in ("step", "accuracy", "best_accuracy", "training", "sha256")}
    return {**sizes, "n_layers": config.n_layers, "seed": config.seed, "parameters": config.num_parameters, **known}
