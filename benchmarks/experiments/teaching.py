"""Fine-tunes a language model to count words, with checkpoints, so that an interrupted run is resumed.

Forms of the task:

- `running`: start token, then 8 words. At each word the model answers how often it has occurred so far.
- `question`: start token, 8 words, colon, a word. At the end the model answers how often that word occurs.
- `labels`, which is not taught: each word of the list is followed by its count so far (`dog 1, cat 1, dog 2, dog`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import cos, pi
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from benchmarks.experiments.pretrained import COLON, COMMA, DIGITS, SPACE, START, L, T
from counting_interp.models import task

WARM_UP = 20
SAVE_EVERY = 50  # steps; accuracy is measured as often
LEARNED = 0.99  # accuracy at which teaching stops, so that models are compared at equal accuracy
HELD_BACK = 512  # sequences on which accuracy is measured; their seeds are never used for teaching


@dataclass(frozen=True)
class Lesson:
    """One model to be taught.

    Attributes:
        model: `stories15M` or `smollm2`.
        pretrained: whether the weights are pretrained or random.
        form: `running`, `question` or `labels`.
        start: whether inputs begin with a start token.
        frozen: whether embeddings are frozen.
        seed: of the sequences, and of random weights.
        steps: the largest number of steps.
    """

    model: str
    pretrained: bool = True
    form: str = "running"
    start: bool = True
    frozen: bool = False
    seed: int = 0
    steps: int = 600
    batch: int = 32
    rate: float = 3e-4

    @property
    def name(self) -> str:
        words = [self.model, "pretrained" if self.pretrained else "random", self.form]
        words += ["no-start"] * (not self.start) + ["frozen"] * self.frozen + [f"s{self.seed}"]
        return "-".join(words)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def encode(
    lesson: Lesson, words: Int[Tensor, "row pos"], asked: Int[Tensor, "row"] | None = None, shift: int = 0
) -> Int[Tensor, "row position"]:
    """Model inputs for sequences of words. `shift` is added to the labels of the word `asked` about."""
    parts = [torch.full_like(words[:, :1], START)] if lesson.start else []
    if lesson.form == "running":
        return torch.cat([*parts, words], 1)
    assert asked is not None, "a question names a word"
    if lesson.form == "question":
        return torch.cat([*parts, words, torch.full_like(words[:, :1], COLON), asked[:, None]], 1)
    digits = DIGITS - 1 + task.running_count(words) + shift * (words == asked[:, None])
    labelled = [words, torch.full_like(words, SPACE), digits, torch.full_like(words, COMMA)]
    return torch.cat([*parts, torch.stack(labelled, -1).flatten(1), asked[:, None], labelled[1][:, :1]], 1)


def answers(lesson: Lesson, logits: Float[Tensor, "row position vocab"]) -> Float[Tensor, "row answer count"]:
    """Logits of the counts 1..L at each position that answers; of 1..9 for the form `labels`."""
    if lesson.form == "labels":
        return torch.cat([logits[:, -1:, DIGITS : DIGITS + L], logits[:, -1:, SPACE + 1 :]], -1)
    positions = logits[:, -1:] if lesson.form == "question" else logits[:, int(lesson.start) :]
    return positions[..., DIGITS : DIGITS + L]


def examples(lesson: Lesson, rows: int, seed: int) -> tuple[Int[Tensor, "row position"], Int[Tensor, "row answer"]]:
    """Model inputs from the paper's sampler, and their true counts."""
    rng = torch.Generator().manual_seed(seed)
    words = task.sample("paper", rows, T=T, L=L, generator=rng)
    if lesson.form == "running":
        return encode(lesson, words), task.running_count(words)
    position = torch.randint(L, (rows, 1), generator=rng)
    return encode(lesson, words, words.gather(1, position)[:, 0]), task.histogram(words).gather(1, position)


@torch.no_grad()
def accuracy(model: Any, lesson: Lesson) -> dict[str, float]:
    """The share of correct answers, and the slope of the answer over the true count."""
    inputs, truth = examples(lesson, HELD_BACK, seed=2**40 + lesson.seed)
    model.eval()
    said = torch.cat([answers(lesson, model(rows).logits).argmax(-1) + 1 for rows in inputs.split(64)])
    x, y = (counts.double().flatten() for counts in (truth, said))
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return {"accuracy": float((x == y).double().mean()), "slope": float(slope)}


def teach(model: Any, lesson: Lesson, folder: Path) -> list[dict[str, float]]:
    """Trains `model` in place until LEARNED or the last step.

    AdamW in bfloat16 with float32 weights; the learning rate decays to a tenth.

    Returns:
        Step, accuracy and slope at the start, every SAVE_EVERY steps and at the end.
    """
    path = folder / f"{lesson.name}.pt"
    model.get_input_embeddings().weight.requires_grad_(not lesson.frozen)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lesson.rate, weight_decay=0.0, fused=True)
    step, history = 0, []
    if path.exists():
        stored = torch.load(path, weights_only=True)
        model.load_state_dict(stored["model"])
        optimizer.load_state_dict(stored["optimizer"])
        step, history = stored["step"], stored["history"]
    if not history:
        history.append({"step": 0, **accuracy(model, lesson)})
    while step < lesson.steps and history[-1]["accuracy"] < LEARNED:
        for group in optimizer.param_groups:
            group["lr"] = lesson.rate * _schedule(step, lesson.steps)
        inputs, truth = examples(lesson, lesson.batch, seed=lesson.seed * 2**20 + step)
        model.train()
        with torch.autocast("cpu", torch.bfloat16):
            logits = answers(lesson, model(inputs).logits)
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), truth.flatten() - 1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step == lesson.steps or step % SAVE_EVERY == 0:
            history.append({"step": step, **accuracy(model, lesson)})
            print(f"{lesson.name} {history[-1]}", flush=True)
            state = {"model": model.state_dict(), "step": step, "history": history}
            _save({**state, "optimizer": optimizer.state_dict()}, path)
    return history


def _schedule(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / WARM_UP) * (0.55 + 0.45 * cos(pi * step / steps))


def _save(state: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    torch.save(state, unfinished)
    unfinished.replace(path)
