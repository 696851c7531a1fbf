"""`interp inspect`: what a checkpoint is, read and measured, not judged. `interp zoo`: the bundled ones."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from counting_interp.data import zoo_names, zoo_path
from counting_interp.interp.cli import options as opt
from counting_interp.interp.cli.console import CHECKPOINT_REFUSED, DONE, print_json, warn
from counting_interp.interp.cli.many_files import Loading, finish, for_each, is_hugging_face, shown
from counting_interp.util.errors import printable
from counting_interp.util.text import columns, describe, sampled

if TYPE_CHECKING:
    from counting_interp.models import CountingConfig, CountingTransformer
    from counting_interp.models.checkpoint import Checkpoint
    from counting_interp.models.protocol import CountingModel
    from counting_interp.probes.accuracy import Accuracy

SAMPLERS = ("paper", "published")
HASH = {  # in a table, and in a sentence
    True: ("holds", "holds (sha256 {})"),
    False: ("BROKEN", "DOES NOT HOLD: the file was changed after it was written"),
    None: ("-", "none in the file"),
}
RECORDED = ("task", "training", "seed", "step", "accuracy", "versions")


def inspect(
    files: opt.Files,
    *,
    json: opt.Json = False,
    sequences: Annotated[
        int, typer.Option("-n", "--sequences", min=1, max=10**6, help="Fresh sequences to measure on.")
    ] = 3000,
    loading: Loading,
    seed: opt.Seed = 0,
) -> None:
    """Say what a checkpoint is: variant, sizes, measured accuracy, what was assumed, whether its hash holds.

    Reads .pt and .safetensors files of this program and of the paper's authors. Several files: one line each. Of models
    of another kind (--adapter my_model.py:load, or a Hugging Face folder) it says what was found in them, and how.
    """
    if loading.adapter is not None or all(map(is_hugging_face, files)):
        _inspect_adapted(files, loading.loader(), json)
    assumed = loading.assumed()
    outcomes = for_each(files, lambda path: inspect_file(path, n=sequences, seed=seed, **assumed), "inspecting")
    changed = [outcome.path for outcome in outcomes if outcome.result and outcome.result.stored.hash_holds is False]
    for path in changed:
        warn(f"{shown(path)}: its sha256 does not hold; other commands refuse this file")
    failure = CHECKPOINT_REFUSED if changed else DONE
    finish(outcomes, as_json=json, facts=Inspection.to_dict, one=_as_text, several=_as_table, failure=failure)


def _inspect_adapted(files: list[Path], load: Callable[[Path], CountingModel], json: bool) -> NoReturn:
    """What adapters found, instead of what a checkpoint says."""

    def texts(models: list[tuple[Path, CountingModel]]) -> str:
        return "\n\n".join(f"{shown(path)}\n{model}" for path, model in models)

    finish(
        for_each(files, load, "inspecting"),
        as_json=json,
        facts=lambda model: {**model.config.to_dict(), "found": str(model).splitlines()},
        one=lambda path, model: texts([(path, model)]),
        several=texts,
    )


@dataclass(frozen=True)
class Inspection:
    """One checkpoint.

    Attributes:
        accuracies: by sampler; that of the model's training first, where the file names it.
        resume: a sentence on how to resume its training; None where it cannot be resumed.
        overflows: whether some logits are not finite.
    """

    stored: Checkpoint
    accuracies: list[Accuracy]
    resume: str | None
    overflows: bool

    @property
    def config(self) -> CountingConfig:
        return self.stored.model.config

    @property
    def metadata(self) -> dict[str, Any]:
        return self.stored.model.metadata

    @property
    def recorded(self) -> dict[str, Any]:
        return {name: self.metadata[name] for name in RECORDED if name in self.metadata}

    def to_dict(self) -> dict[str, Any]:
        """The fields of `interp inspect --json`."""
        from counting_interp.probes.accuracy import CONFIDENCE

        first, config = self.accuracies[0], self.config.to_dict()
        sizes = ("T", "L", "d", "p", "n_layers", "n_classes", "dtype", "frozen_embeddings")
        return {
            "model": self.config.name,
            **{name: config[name] for name in sizes},
            "accuracy": first.value,
            "accuracy_interval": list(first.interval),
            "accuracy_confidence": CONFIDENCE,
            "accuracy_sampler": first.sampler,
            "resumable": self.resume is not None,
            "parameters": self.stored.model.num_parameters,
            "accuracies": list(map(asdict, self.accuracies)),
            "assumed": self.metadata.get("assumed", []),
            "hash_holds": self.stored.hash_holds,
            "sha256": self.metadata.get("sha256"),
            "mechanism": self.metadata.get("mechanism"),
            "recorded": self.recorded,
            "resume": self.resume,
            "overflows": self.overflows,
        }


def inspect_file(path: Path, *, n: int = 3000, seed: int = 0, **assume: Any) -> Inspection:
    """Read and measure one file. A hash that does not hold is reported, not refused.

    Args:
        n: sequences for each accuracy.
        assume: of a file without configuration; see `counting_interp.models.checkpoint.read`.
    """
    from counting_interp.models import checkpoint
    from counting_interp.probes.accuracy import measure

    stored = checkpoint.read(path, check_hash=False, **assume)
    accuracies = [measure(stored.model, sampler, n=n, seed=seed) for sampler in _samplers(stored.model.metadata)]
    return Inspection(stored, accuracies, _how_to_resume(path, stored), _overflows(stored.model, seed))


def _samplers(metadata: dict[str, Any]) -> list[str]:
    recorded = metadata.get("task", {}).get("sampler")
    known = recorded if recorded in (*SAMPLERS, "uniform") else SAMPLERS[0]
    return list(dict.fromkeys([known, *SAMPLERS]))


def _how_to_resume(path: Path, read: Checkpoint) -> str | None:
    """A sentence with the command that resumes it."""
    if read.training_state is None or not read.hash_holds:
        return None
    from counting_interp.models.training.record import stored_run

    name = shlex.quote(str(path))
    if "repair" in read.training_state.values:
        return f"a repair without proof so far; `interp repair PARENT -o {name} --resume` continues"
    run = stored_run(read)
    if run is None:
        return None
    if run.epochs < run.recipe.epochs:
        return f"stopped after epoch {run.epochs} of {run.recipe.epochs}; `interp train -o {name} --resume` continues"
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


def _as_text(path: Path, facts: Inspection) -> str:
    """One checkpoint, for a person. Texts from the file are made printable."""
    config, mechanism = facts.config, facts.metadata.get("mechanism") or {}
    frozen = ", embeddings frozen" if config.frozen_embeddings else ""
    label, provenance = (printable(str(mechanism.get(name)), 40) for name in ("label", "provenance"))
    recorded = [f"{name}: {printable(dumps(value, ensure_ascii=False), 160)}" for name, value in facts.recorded.items()]
    sha256 = printable(str(facts.metadata.get("sha256")), 64)
    lines = [
        ("model", describe(config)),
        ("", f"{config.classes} classes, {config.dtype}{frozen}"),
        ("parameters", f"{facts.stored.model.num_parameters:,}"),
        *_accuracy_lines(facts.accuracies),
        *([("", "some logits are not finite: the weights are too large")] if facts.overflows else []),
        ("hash", HASH[facts.stored.hash_holds][1].format(sha256)),
        *_labelled("assumed", facts.metadata.get("assumed") or ["nothing"]),
        ("mechanism", f"{label} ({provenance}, as the file says)" if mechanism else "no label"),
        *_labelled("recorded", recorded),
        *([("training", printable(facts.resume, 400))] if facts.resume else []),
    ]
    return "\n".join([shown(path), *(f"  {label:<11} {text}" for label, text in lines)])


def _as_table(rows: Iterable[tuple[Path, Inspection]]) -> str:
    """Several checkpoints, one line each."""
    table: list[tuple[str, ...]] = [
        ("model", "T", "L", "d", "p", "layers", "parameters", "accuracy", "hash", "mechanism", "file")
    ]
    for path, facts in rows:
        config, first = facts.config, facts.accuracies[0]
        sizes = map(str, (config.T, config.L, config.d, config.p, config.n_layers))
        parameters, accuracy = f"{facts.stored.model.num_parameters:,}", f"{_percent(first.value)} {first.sampler}"
        label = printable(str((facts.metadata.get("mechanism") or {}).get("label", "-")), 20)
        table.append((config.name, *sizes, parameters, accuracy, HASH[facts.stored.hash_holds][0], label, shown(path)))
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
    """Two decimals; 100 % only if all are right."""
    return f"{min(share * 100, 99.99) if share < 1 else 100:.2f} %"


def _range(interval: tuple[float, float]) -> str:
    return f"[{interval[0] * 100:.2f}, {interval[1] * 100:.2f}]"


def zoo(json: opt.Json = False) -> None:
    """List the bundled models: what each is and why it is there. Every command takes their names instead of files."""
    entries = [{"name": name, **_facts(zoo_path(name))} for name in zoo_names()]
    if json:
        print_json(entries)
        return
    table: list[tuple[str, ...]] = [("name", "T", "L", "accuracy", "why it is here")]
    for entry in entries:
        accuracy = "-" if entry["accuracy"] is None else sampled(entry["accuracy"])
        table.append((entry["name"], str(entry["T"]), str(entry["L"]), accuracy, entry["why"]))
    typer.echo(columns(table))


def _facts(path: Path) -> dict[str, Any]:
    """From the metadata at the head of a bundled safetensors file, which needs no torch."""
    with path.open("rb") as file:
        head = loads(file.read(int.from_bytes(file.read(8), "little")))
    metadata = loads(head["__metadata__"]["counting-interp"])
    config = metadata["config"]
    return {
        **{size: config[size] for size in ("T", "L", "d", "p", "n_layers")},
        "accuracy": metadata.get("accuracy", {}).get("value"),
        "why": metadata.get("zoo", {}).get("why", ""),
    }
