"""What a checkpoint is, as facts: read, measured, nothing judged."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counting_interp.interp.cli.many_files import shown
from counting_interp.probes.accuracy import CONFIDENCE, Accuracy, measure
from counting_interp.util.errors import printable
from counting_interp.util.text import columns

if TYPE_CHECKING:
    from counting_interp.models import CountingTransformer
    from counting_interp.models.checkpoint import Checkpoint

SAMPLERS = ("paper", "published")
RECORDED = ("task", "training", "seed", "step", "accuracy", "versions")


@dataclass(frozen=True)
class Inspection:
    """One checkpoint.

    Attributes:
        accuracies: by sampler; the first is that of the model's own training, where the file says.
        hash_holds: None where the file carries no hash.
        mechanism: the label in the file, with its provenance. Nobody has checked it here.
        recorded: what else the file says about itself.
        resume: how its training can be gone on with, a sentence; None where it cannot.
        overflows: whether some logits are not finite.
    """

    config: dict[str, Any]
    model: str
    parameters: int
    accuracies: list[Accuracy]
    assumed: list[str]
    hash_holds: bool | None
    sha256: str | None
    mechanism: dict[str, Any] | None
    recorded: dict[str, Any]
    resume: str | None
    overflows: bool

    def to_dict(self) -> dict[str, Any]:
        """The fields of `interp inspect --json`."""
        first = self.accuracies[0]
        rest = asdict(self)
        config = rest.pop("config")
        return {
            "model": rest.pop("model"),
            **{name: config[name] for name in ("T", "L", "d", "p", "n_layers", "n_classes", "dtype")},
            "frozen_embeddings": config["frozen_embeddings"],
            "accuracy": first.value,
            "accuracy_interval": list(first.interval),
            "accuracy_confidence": CONFIDENCE,
            "accuracy_sampler": first.sampler,
            "resumable": self.resume is not None,
            **rest,
        }


def inspect(path: Path, *, n: int = 3000, seed: int = 0, **assume: Any) -> Inspection:
    """Read and measure one file. A hash that does not hold is reported, not refused.

    Args:
        n: sequences for each accuracy.
        assume: what to take for granted of a file without configuration; see `counting_interp.models.checkpoint.read`.
    """
    from counting_interp.models import checkpoint

    read = checkpoint.read(path, check_hash=False, **assume)
    model, metadata = read.model, read.model.metadata
    return Inspection(
        config=model.config.to_dict(),
        model=model.config.name,
        parameters=model.num_parameters,
        accuracies=[measure(model, sampler, n=n, seed=seed) for sampler in _samplers(metadata)],
        assumed=metadata.get("assumed", []),
        hash_holds=read.hash_holds,
        sha256=metadata.get("sha256"),
        mechanism=metadata.get("mechanism"),
        recorded={name: metadata[name] for name in RECORDED if name in metadata},
        resume=_how_to_resume(path, read),
        overflows=_overflows(model, seed),
    )


def _samplers(metadata: dict[str, Any]) -> list[str]:
    own = metadata.get("task", {}).get("sampler")
    known = own if own in (*SAMPLERS, "uniform") else SAMPLERS[0]
    return list(dict.fromkeys([known, *SAMPLERS]))


def _how_to_resume(path: Path, read: Checkpoint) -> str | None:
    """A command that works, or none."""
    if read.training_state is None or not read.hash_holds:
        return None
    from counting_interp.models.training.record import stored_run

    name = shlex.quote(str(path))
    if "repair" in read.training_state.values:
        return f"a repair without proof so far; `interp repair PARENT -o {name} --resume` goes on"
    run = stored_run(read)
    if run is None:
        return None
    if run.epochs < run.recipe.epochs:
        return f"stopped after epoch {run.epochs} of {run.recipe.epochs}; `interp train -o {name} --resume` goes on"
    if run.recipe.schedule != "constant":
        return None
    more = f"interp train -o {name} --epochs {2 * run.epochs} --resume"
    return f"finished after {run.epochs} epochs; `{more}` would add as many"


def _overflows(model: CountingTransformer, seed: int) -> bool:
    import torch

    from counting_interp.models import task
    from counting_interp.models.cost import affordable, batch_size

    n = min(affordable(model.config, 1000), batch_size(model.config))
    tokens = task.sample("uniform", n, T=model.config.T, L=model.config.L, generator=seed)
    with torch.no_grad():
        return not bool(model(tokens).isfinite().all())


# --- as text -------------------------------------------------------------------------------------------------------


def as_text(path: Path, found: Inspection) -> str:
    """One checkpoint, for a person. What a stranger wrote is made printable; nothing is markup here."""
    config = found.config
    layers = "1 layer" if config["n_layers"] == 1 else f"{config['n_layers']} layers"
    lines = [
        ("model", f"{found.model}, T={config['T']}, L={config['L']}, d={config['d']}, p={config['p']}, {layers}"),
        ("", f"{config['n_classes']} classes, {config['dtype']}{_frozen(config)}"),
        ("parameters", f"{found.parameters:,}"),
        *_accuracy_lines(found.accuracies),
        *([("", "some logits are not finite: the weights are too large")] if found.overflows else []),
        ("hash", _hash(found)),
        *_labelled("assumed", found.assumed or ["nothing"]),
        ("mechanism", _mechanism(found.mechanism)),
        *_labelled("recorded", [f"{name}: {_short(value)}" for name, value in found.recorded.items()]),
        *([("training", printable(found.resume, 400))] if found.resume else []),
    ]
    return "\n".join([shown(path), *(f"  {label:<11} {text}" for label, text in lines)])


def as_table(rows: Iterable[tuple[Path, Inspection]]) -> str:
    """Several checkpoints, one line each."""
    table: list[tuple[str, ...]] = [
        ("model", "T", "L", "d", "p", "layers", "parameters", "accuracy", "hash", "mechanism", "file")
    ]
    for path, found in rows:
        sizes = [str(found.config[name]) for name in ("T", "L", "d", "p", "n_layers")]
        accuracy = f"{_percent(found.accuracies[0].value)} {found.accuracies[0].sampler}"
        label = printable(str((found.mechanism or {}).get("label", "-")), 20)
        held = {True: "holds", False: "BROKEN", None: "-"}[found.hash_holds]
        table.append((found.model, *sizes, f"{found.parameters:,}", accuracy, held, label, shown(path)))
    return columns(table)


def _accuracy_lines(accuracies: list[Accuracy]) -> list[tuple[str, str]]:
    lines = [
        f"{_percent(a.value)} of positions {_range(a.interval)}, {_percent(a.sequences)} of whole sequences "
        f"{_range(a.sequences_interval)}, {a.sampler} sampler"
        for a in accuracies
    ]
    lines.append(f"(95 % intervals over {accuracies[0].n_sequences:,} fresh sequences, each sequence one sample)")
    return _labelled("accuracy", lines)


def _labelled(label: str, lines: list[str]) -> list[tuple[str, str]]:
    return [(label if i == 0 else "", printable(line, 400)) for i, line in enumerate(lines)]


def _percent(share: float) -> str:
    """Two decimals, and never 100 % unless all are right."""
    return f"{min(share * 100, 99.99) if share < 1 else 100:.2f} %"


def _range(interval: tuple[float, float]) -> str:
    return f"[{interval[0] * 100:.2f}, {interval[1] * 100:.2f}]"


def _frozen(config: dict[str, Any]) -> str:
    return ", embeddings frozen" if config["frozen_embeddings"] else ""


def _hash(found: Inspection) -> str:
    if found.hash_holds is None:
        return "none in the file"
    if found.hash_holds:
        return f"holds (sha256 {printable(str(found.sha256), 64)})"
    return "DOES NOT HOLD: the file was changed after it was written"


def _mechanism(mechanism: dict[str, Any] | None) -> str:
    if not mechanism:
        return "no label"
    label, provenance = mechanism.get("label"), mechanism.get("provenance")
    return f"{printable(str(label), 40)} ({printable(str(provenance), 40)}, as the file says)"


def _short(value: Any) -> str:
    import json

    return printable(json.dumps(value, ensure_ascii=False), 160)
