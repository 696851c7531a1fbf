"""One or several training runs from the command line: progress, interruption, resuming, and which to keep."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from counting_interp.interp.cli.console import progress_bar, stop_signals, warn
from counting_interp.models import CountingConfig, CountingTransformer, checkpoint
from counting_interp.models.training import Recipe, Run, advance_together
from counting_interp.models.training.engine import too_large, why_no_kernels
from counting_interp.models.training.record import Recorder, has_final_accuracy, is_of_run, reopen, snapshot_path
from counting_interp.util.errors import CheckpointError, InterpError
from counting_interp.util.files import OutputError, held, remove_leftovers

if TYPE_CHECKING:
    from rich.progress import Progress

    from counting_interp.interp.cli.train import Files

MUCH_BETTER = 0.005  # of positions: several times what chance moves the accuracy on 3,000 sequences by
STACK = 16  # runs in one computation, where the engine can; more gain little


class Interrupted(Exception):  # noqa: N818 (an outcome, not an error)
    """The user stopped a run; its checkpoint is on disk."""

    def __init__(self, run: Run, command: str) -> None:
        super().__init__(f"interrupted after epoch {run.epoch} of {run.recipe.epochs}; {command} resumes it")


@dataclass(frozen=True)
class Plan:
    """What `interp train` was asked for: runs that differ in their seed only."""

    config: CountingConfig
    recipe: Recipe
    files: Files

    @property
    def seeds(self) -> range:
        return range(self.config.seed, self.config.seed + self.files.runs)

    @property
    def paths(self) -> list[Path]:
        """Where each run is written."""
        return list(map(self.files.path, self.seeds))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Every file of the plan belongs to this process; another one that wants it is refused."""
        with ExitStack() as locks:
            for path in sorted({self.files.output, *self.paths}):
                locks.enter_context(held(path))
            yield


def check_affordable(plan: Plan) -> None:
    """Refuse what would take days an epoch, or more memory than machines have."""
    together = 1 if why_no_kernels(plan.config, plan.recipe) is None else min(STACK, len(plan.seeds))
    if (reason := too_large(plan.config, plan.recipe, together)) is not None:
        raise InterpError(f"{reason}; train a smaller one, or with fewer sequences, or call it from Python")


def check_snapshots(plan: Plan) -> None:
    """Refuse where snapshots would replace those of another run, or would be written through a link.

    With --overwrite those of another run are removed: two runs in one folder would be read as one.
    """
    for seed in plan.seeds if plan.files.snapshots else ():
        folder = snapshot_path(plan.files.path(seed), 0, 1).parent
        there = sorted(folder.iterdir()) if folder.is_dir() else []
        for path in there:
            if path.is_symlink():
                raise OutputError(path, "is a link, and a snapshot of this run may have its name; remove it first")
        if there and not is_of_run(there[0], plan.config.replace(seed=seed), plan.recipe):
            if not plan.files.overwrite:
                raise OutputError(folder, "holds snapshots of another run; give another -o, or --overwrite")
            for path in folder.glob("step-*"):
                path.unlink()


def run_all(plan: Plan) -> list[Path]:
    """Train every run of the plan; returns the checkpoints that are kept."""
    output, paths = plan.files.output, plan.paths
    for path in {output, *paths}:
        remove_leftovers(path)
    if plan.files.resume and _chosen_before(plan):
        _remove_all_but(output, paths)
        return [output]
    together = 1 if why_no_kernels(plan.config, plan.recipe) is None else STACK
    with progress_bar() as progress, _stop_requests() as stop:
        for first in range(0, len(paths), together):
            _train_stack(plan, plan.seeds[first : first + together], progress, stop)
    if plan.files.all_runs or len(paths) == 1:
        return paths
    return [_keep_best_run(plan, paths)]


def _train_stack(plan: Plan, seeds: range, progress: Progress, stop: list[int]) -> None:
    """Train the runs of some seeds to their end, all that have come equally far in one computation."""
    files = plan.files
    runs = {seed: _begin(plan, plan.config.replace(seed=seed), files.path(seed)) for seed in seeds}
    going = {seed: run for seed, run in runs.items() if run is not None}
    recorders = {
        seed: Recorder(files.path(seed), files.checkpoint_every, files.snapshots, files.overwrite) for seed in going
    }
    label = f"{plan.config.name} d={plan.config.d} p={plan.config.p} seed="
    bars = {
        seed: progress.add_task(
            f"{label}{seed}  compiling (once, about 30 s)", total=plan.recipe.epochs, completed=run.epoch
        )
        for seed, run in going.items()
    }
    for seed, run in going.items():
        recorders[seed].record(run)
    while unfinished := {seed: run for seed, run in going.items() if not run.finished}:
        behind = min(run.epoch for run in unfinished.values())
        advance_together([run for run in unfinished.values() if run.epoch == behind])
        for seed, run in unfinished.items():
            accuracy = f"{100 * run.accuracies[-1]:6.2f} %"
            progress.update(bars[seed], completed=run.epoch, description=f"{label}{seed}  {accuracy}")
            recorders[seed].record(run)
        if stop and any(not run.finished for run in unfinished.values()):
            for seed, run in unfinished.items():
                recorders[seed].write(run)
            again = f"`interp train -o {shlex.quote(str(files.output))} --resume`"
            slowest = min(unfinished.values(), key=lambda run: run.epoch)
            raise Interrupted(slowest, again if len(plan.seeds) == 1 else "the same command with --resume")


def _begin(plan: Plan, config: CountingConfig, path: Path) -> Run | None:
    """A new run, or the one that is on disk; None if there is nothing left to do."""
    if not (plan.files.resume and path.exists()):
        return Run(config, plan.recipe, keep_best=plan.files.keep_best)
    run = reopen(path, config, plan.recipe)
    if run is not None and plan.files.keep_best and run.best_epoch is None:
        warn(f"{path}: --keep-best was not there from the beginning; the best epoch from {run.epoch} on is kept")
        run.remember(run.engine.state_dict(), run.epoch)
    return run


def _keep_best_run(plan: Plan, paths: list[Path]) -> Path:
    """Write the run with the highest accuracy (the first of equals) to the output, then remove the others."""
    files = [checkpoint.read(path) for path in paths]
    accuracies = [accuracy_of(file.model) for file in files]
    best = files[accuracies.index(max(accuracies))]
    best.model.metadata["selection"] = {"best_of_seeds": list(plan.seeds), "accuracies": accuracies}
    output = plan.files.output
    checkpoint.save(best.model, output, training_state=best.training_state)
    _remove_all_but(output, paths)
    return output


def _chosen_before(plan: Plan) -> bool:
    """Whether the output is already the best of these runs. Another file there is refused."""
    output = plan.files.output
    if len(plan.seeds) == 1 or plan.files.all_runs or not output.exists():
        return False
    model = checkpoint.load(output)
    selection = model.metadata.get("selection", {})
    same_model = model.config == plan.config.replace(seed=model.config.seed)
    same_recipe = model.metadata.get("training") == plan.recipe.to_dict()
    same_seeds = selection.get("best_of_seeds") == list(plan.seeds)
    if has_final_accuracy(model) and same_model and same_recipe and same_seeds:
        return True
    raise CheckpointError(output, "is not the best of these runs; leave --runs out to continue it alone")


def _remove_all_but(kept: Path, paths: list[Path]) -> None:
    for path in paths:
        if path != kept:
            path.unlink(missing_ok=True)


def accuracy_of(model: CountingTransformer) -> float:
    """As its training measured it, of positions."""
    return float(model.metadata["accuracy"]["value"])


def what_was_lost(model: CountingTransformer) -> str | None:
    """A sentence where an earlier epoch of the run was much better than the one that was kept."""
    best, value = model.metadata["best_accuracy"], accuracy_of(model)
    if best["value"] - value < MUCH_BETTER:
        return None
    return (
        f"epoch {best.get('epoch', '?')} had {100 * best['value']:.2f} % of positions right, this model has "
        f"{100 * value:.2f} %; with --keep-best the best epoch is kept"
    )


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """A list that a request to stop puts an entry into, so that an epoch is never left half done.

    A second request is not waited for: it interrupts at once, and the last checkpoint stays.
    """
    requests: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        requests.append(number)
        if len(requests) > 1:
            raise KeyboardInterrupt

    with stop_signals(note):
        yield requests
