"""The first epoch of a run, step by step: where a mechanism begins to form, an epoch is too coarse a measure.

The steps are made beside the run, on weights of their own, from the same sequences in the same batches. So the run
itself is not touched, and keeps its bits and its speed; what it costs is one epoch more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counting_interp.models.training.engine import engine_for
from counting_interp.models.training.recipe import Recipe
from counting_interp.models.training.run import Run, log_spaced
from counting_interp.models.transformer import CountingTransformer


def snapshot_steps(recipe: Recipe, n: int) -> list[int]:
    """About `n` steps from 0 to the last, log-spaced: any step of the first epoch, and after it the ends of epochs."""
    epoch = recipe.steps_per_epoch
    steps = log_spaced(recipe.epochs * epoch, n)
    return sorted({step if step < epoch else epoch * round(step / epoch) for step in steps})


def first_steps(run: Run, steps: Sequence[int]) -> Iterator[CountingTransformer]:
    """The models that a run which has not begun will be after these steps (rising) of its first epoch."""
    if run.epoch or any(step >= run.recipe.steps_per_epoch for step in steps):
        raise ValueError(f"first steps are those before the end of the first epoch, got {list(steps)}")
    config, recipe = run.config, run.recipe
    engine = engine_for(config, recipe, run.engine.state_dict())
    fresh, validation = engine.draw(0), engine.given(run.validation)
    done = 0
    for step in steps:
        if step > done:
            engine.train(engine.part(fresh, done * recipe.batch_size, step * recipe.batch_size), done)
            done = step
        facts = run.facts(step, [engine.count_right(validation) / run.positions] if step else [], [])
        yield CountingTransformer(config, engine.state_dict(), facts)
