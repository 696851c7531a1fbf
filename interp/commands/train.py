"""`interp train`: train a counting model by the published protocol."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from interp.console import INTERRUPTED, complain, print_json, usage_errors
from interp.outputs import OutputError, check_checkpoint_output
from models.files import is_replaceable

MODEL_HELP = (
    "lin, lin+sftm, dot, dot+sftm, bos or bos+sftm; then, as wanted, +values +4heads +norm +gelu +positions +causal."
)


class Keep(str, Enum):
    best = "best"
    all = "all"


def register(app: typer.Typer) -> None:
    app.command("train")(train)


def train(
    output: Annotated[Path, typer.Option("-o", "--output", help="The checkpoint to write, .pt or .safetensors.")],
    model: Annotated[str, typer.Option("--model", help=MODEL_HELP)],
    d: Annotated[int, typer.Option("-d", help="Embedding dimension.")],
    p: Annotated[int, typer.Option("-p", help="Hidden units.")],
    T: Annotated[int, typer.Option("-T", help="Tokens in the alphabet.")] = 32,
    L: Annotated[int, typer.Option("-L", help="Length of a sequence.")] = 10,
    layers: Annotated[int, typer.Option(help="1 or 2.")] = 1,
    seed: Annotated[int, typer.Option(help="Of initialisation and data; the first of several runs.")] = 0,
    epochs: Annotated[int, typer.Option(help="Of fresh sequences.")] = 500,
    sequences: Annotated[int, typer.Option(help="In an epoch.")] = 10_000,
    batch_size: Annotated[int, typer.Option(help="Sequences in a step.")] = 32,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 1e-3,
    sampler: Annotated[
        str, typer.Option(help="paper, published (what the authors trained with: no count of L) or uniform.")
    ] = "paper",
    weight_decay: Annotated[float, typer.Option(help="Of AdamW; 0 is the published Adam.")] = 0.0,
    schedule: Annotated[
        str, typer.Option(help="Of the learning rate: constant, linear or cosine, both to 0.")
    ] = "constant",
    validation: Annotated[int, typer.Option(help="Sequences to measure accuracy on.")] = 3000,
    frozen_embeddings: Annotated[bool, typer.Option("--frozen-embeddings", help="Random, not trained.")] = False,
    published_classes: Annotated[bool, typer.Option("--published-classes", help="L + 1 logits, as published.")] = False,
    runs: Annotated[int, typer.Option(min=1, help="Several runs, with seeds SEED, SEED+1, ...")] = 1,
    keep: Annotated[Keep, typer.Option(help="Of several runs: the best, or all (as NAME.seed-K.pt).")] = Keep.best,
    snapshots: Annotated[int, typer.Option(min=0, help="Checkpoints at log-spaced steps, NAME.snapshots/.")] = 0,
    checkpoint_every: Annotated[float, typer.Option(min=0, help="Seconds between two checkpoints.")] = 10.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the checkpoint at -o, if there is one.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the checkpoint at -o.")] = False,
    until_proved: Annotated[
        bool, typer.Option("--until-proved", help="Then `interp repair` into NAME.proved.pt; 1 if there is no proof.")
    ] = False,
    proof_time: Annotated[float, typer.Option(min=0.001, help="Seconds of repair, with --until-proved.")] = 300.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Train a counting model by the published protocol; Ctrl-C leaves a checkpoint that --resume goes on with.

    The same options and seed give the same weights, bit by bit, however often the run was interrupted.
    """
    if not output.parent.is_dir():
        raise OutputError(output.parent, "does not exist; make this folder first")
    if not is_replaceable(output) and not output.is_dir():
        raise OutputError(output, "is no regular file; a training run needs one that it can read back")
    check_checkpoint_output(output, overwrite=True)
    from interp.repair.run import check_repairable
    from interp.training import Interrupted, Plan, check_affordable, final_accuracy, run_all
    from models import CountingConfig, CountingTransformer, task
    from models.training import Recipe

    with usage_errors():
        classes = L + 1 if published_classes else L
        config = CountingConfig.parse(
            model,
            T=T,
            L=L,
            d=d,
            p=p,
            n_layers=layers,
            n_classes=classes,
            frozen_embeddings=frozen_embeddings,
            seed=seed,
        )
        recipe = Recipe(
            epochs,
            sequences,
            batch_size,
            lr,
            sampler=sampler,
            validation=validation,
            weight_decay=weight_decay,
            schedule=schedule,
        )
        task.check_sampler(sampler, T=T, L=L)
    seeds = tuple(range(seed, seed + runs))
    plan = Plan(config, recipe, output, seeds, keep is Keep.all, resume, checkpoint_every, snapshots)
    check_affordable(plan)
    if until_proved:
        check_repairable(config)
    taken = [path for path in (output, *map(plan.path, seeds)) if path.exists()]
    if until_proved:
        taken += [path for path in map(proved_path, (output, *map(plan.path, seeds))) if path.exists()]
    if taken and not (resume or overwrite):
        raise OutputError(taken[0], "exists; --resume goes on with it, --overwrite replaces it")
    try:
        with plan.held():
            paths = run_all(plan)
            models = [CountingTransformer.load(path) for path in paths]
    except Interrupted as interruption:
        complain(f"{interruption} (the same command with --resume)")
        raise typer.Exit(INTERRUPTED) from None
    if json and not until_proved:
        print_json([{"path": str(path), **_facts(trained)} for path, trained in zip(paths, models, strict=True)])
        return
    for path, trained in zip(paths, models, strict=True):
        accuracy = f"{100 * final_accuracy(trained):.2f} % of positions right"
        typer.echo(
            f"{path}: {trained.config.name} d={d} p={p} seed={trained.config.seed}, {accuracy}", err=until_proved
        )
    if until_proved:
        from interp.commands.repair import repair_all

        targets = zip(models, map(proved_path, paths), strict=True)
        raise typer.Exit(repair_all(list(targets), proof_time, 0, resume, json))


def proved_path(path: Path) -> Path:
    """`ckpt.proved.pt` for `ckpt.pt`."""
    return path.with_name(f"{path.stem}.proved{path.suffix}")


def _facts(model) -> dict:
    config, metadata = model.config, model.metadata
    sizes = {"model": config.name, "T": config.T, "L": config.L, "d": config.d, "p": config.p}
    known = {name: metadata[name] for name in ("step", "accuracy", "best_accuracy", "training", "sha256")}
    return {**sizes, "n_layers": config.n_layers, "seed": config.seed, "parameters": config.num_parameters, **known}
