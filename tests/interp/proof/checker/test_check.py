"""True proofs are accepted, false ones never: against running every sequence, and 1,000 corruptions."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from counting_interp.interp.proof import Certificate, prove
from counting_interp.interp.proof.checker.check import MARGIN_BITS, Checked, _where, check, seal
from counting_interp.interp.proof.checker.weights import Refused, Unreadable
from counting_interp.interp.proof.document import proof_document
from counting_interp.models import CountingTransformer, task
from counting_interp.models.checkpoint.safetensors import digest
from counting_interp.models.config import VARIANTS
from counting_interp.models.constructions import construct
from tests.helpers import ROOT
from tests.interp.proof.examples import all_sequences, broken, fitted_model, truth, uniform_positions

WIDTHS = {"lin": (60, 90), "lin+sftm": (40, 60), "dot": (45, 70), "bos": (45, 70)}


def write(folder: Path, model: CountingTransformer, document: dict[str, Any]) -> tuple[Path, Path]:
    model.save(folder / "model.safetensors")
    (folder / "certificate.json").write_text(json.dumps(document))
    return folder / "certificate.json", folder / "model.safetensors"


def proved(model: CountingTransformer, max_count: int | None = None) -> dict[str, Any] | None:
    outcome = prove(model, seconds=60, max_count=max_count)
    return proof_document(model, outcome) if isinstance(outcome, Certificate) else None


def cell_margins(model: CountingTransformer) -> list[float]:
    """The smallest margin of every cell in the order of a certificate, by running every sequence in float64."""
    config = model.config
    exact = CountingTransformer(config.replace(dtype="float64"), weights=model.state_dict())
    tokens = all_sequences(config.T, config.L)
    counts = task.histogram(tokens)
    index = (counts - config.first_count).unsqueeze(-1)
    with torch.no_grad():
        logits = exact(tokens)
    margins = (logits.gather(-1, index) - logits.scatter(-1, index, -torch.inf)).amin(-1)
    alike = uniform_positions(model)
    positions = torch.zeros_like(tokens) if alike else torch.arange(config.L).expand_as(tokens)
    cells = ((positions * config.T + tokens) * config.L + counts - 1).flatten()
    n = config.T * config.L * (1 if alike else config.L)
    lowest = torch.full((n,), torch.inf, dtype=torch.float64)
    return lowest.scatter_reduce(0, cells, margins.flatten(), "amin").tolist()


def states_the_truth(document: dict[str, Any], model: CountingTransformer) -> bool:
    counts, L = document["counts"], model.config.L
    lowest = [margin for i, margin in enumerate(cell_margins(model)) if i % L < counts]
    stated = [cell[0] / 2**MARGIN_BITS for cell in document["cells"]]
    return len(stated) == len(lowest) and all(a <= b + 1e-9 for a, b in zip(stated, lowest, strict=True))


@pytest.mark.parametrize("variant", [*VARIANTS, "lin alike", "lin+sftm alike"])
def test_proofs_on_the_right_side_of_the_border_hold_and_forgeries_on_the_other_do_not(variant, tmp_path):
    T, L = (3, 3) if variant.startswith("lin") else (4, 4)
    accepted, forged = 0, 0
    for seed in range(2):
        plain = variant.removesuffix(" alike")
        for p in WIDTHS.get(plain.removesuffix("+sftm") if plain not in WIDTHS else plain, ()):
            for max_count in (None, L - 1):
                model = fitted_model(variant, T=T, L=L, d=5, p=p, seed=seed, extra_class=seed == 1)
                document = proved(model, max_count)
                if document is None:
                    continue
                found = check(*write(tmp_path, model, document))
                assert truth(model, max_count).right
                assert states_the_truth(document, model)
                assert found.counts == (max_count or L)
                accepted += 1
                for attempt in range(6):  # the same proof, said of a model that is wrong
                    other = broken(model, attempt, 0.5)
                    if not truth(other, max_count).right:
                        forgery = {**document, "weights_sha256": digest(other.state_dict())}
                        files = write(tmp_path, other, {**forgery, "sha256": seal(forgery)})
                        with pytest.raises(Refused):
                            check(*files)
                        forged += 1
    assert accepted
    assert forged


@pytest.mark.parametrize("name", ["rc-bos", "rc-bos+sftm-arc"])
def test_constructions_at_the_size_of_the_paper(name, tmp_path):
    model = construct(name)
    document = proved(model)
    assert document is not None
    found = check(*write(tmp_path, model, document))
    assert (found.cells, found.precision) == (320, "float64" if name == "rc-bos+sftm-arc" else "float32")
    assert 0 < found.slack <= found.margin
    assert "32^10" in found.claim
    assert found.precision in found.claim


# --- corruptions ------------------------------------------------------------------------------------------------------


@cache
def example(variant: str) -> tuple[CountingTransformer, str]:
    """A small model and its certificate, with trees that branch."""
    for seed in range(20):
        model = fitted_model(
            variant, T=3 if variant == "lin" else 4, L=3, d=4, p=90 if variant == "lin" else 30, seed=seed
        )
        document = proved(model)
        if document is not None and any(len(tree) > 1 for _, trees in document["cells"] for tree in trees):
            return model, json.dumps(document)
    raise AssertionError("no model of this size has a proof that branches")


def accepted(folder: Path, text: str) -> Checked | None:
    (folder / "certificate.json").write_text(text)
    try:
        return check(folder / "certificate.json", folder / "model.safetensors")
    except (Refused, Unreadable):
        return None


def damaged_text(text: str, rng: random.Random) -> str:
    """Characters changed, taken out, doubled or cut off."""
    at = rng.randrange(len(text))
    size = rng.choice([1, 1, 1, 5, 50])
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:at] + text[at + size :]
    if kind == 2:
        return text[: at + size] + text[at:]
    return text[:at] + rng.choice('0123456789abcdef-,[]{}" e.') + text[at + 1 :]


def damaged_document(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """One thing changed in what the certificate says; the seal is put on anew."""
    document = copy.deepcopy(document)
    cells = document["cells"]
    cell, other = rng.choice(cells), rng.choice(cells)
    tree = rng.choice(cell[1])
    at = rng.randrange(len(tree))

    def change_entry() -> None:
        entry = tree[at]
        if isinstance(entry, str) and entry and rng.random() < 0.7:
            digit = rng.randrange(len(entry))
            tree[at] = entry[:digit] + rng.choice("0123456789abcdef") + entry[digit + 1 :]
        else:
            tree[at] = rng.choice([rng.randrange(-4, 4), "", "80" * rng.randrange(1, 30), 10**30])

    def change_claim() -> None:
        name = rng.choice(["counts", "precision", "weights_sha256", "version", "format"])
        document[name] = rng.choice([2, 3, 4, "float32", "0" * 64, True, None, []])

    def change_model() -> None:
        name = rng.choice(sorted(document["model"]))
        document["model"][name] = rng.choice([True, False, 2, 3, 4, 5, "lin", "dot", "bos", 1.5])

    changes = [
        change_entry,
        change_entry,
        change_claim,
        change_model,
        lambda: cell.__setitem__(0, max(0, cell[0] + rng.choice([-1, 1]) * 2 ** rng.randrange(120))),
        lambda: tree.pop(at),
        lambda: tree.insert(at, rng.choice(tree)),
        lambda: cell[1].pop(),
        lambda: cell[1].reverse(),
        lambda: cells.remove(cell),
        lambda: cells.append(copy.deepcopy(cell)),
        lambda: cell.__setitem__(slice(None), copy.deepcopy(other)),
        lambda: cell.__setitem__(1, copy.deepcopy(other[1])),
        lambda: document.pop(rng.choice(sorted(document))),
    ]
    rng.choice(changes)()
    document["sha256"] = seal(document)
    return document


@pytest.mark.parametrize("variant", ["dot", "lin"])
def test_none_of_500_damaged_files_is_accepted(variant, tmp_path):
    model, text = example(variant)
    model.save(tmp_path / "model.safetensors")
    assert accepted(tmp_path, text)
    rng = random.Random(0)
    for _ in range(500):
        damaged = damaged_text(text, rng)
        assert accepted(tmp_path, damaged) is None or json.loads(damaged) == json.loads(text)  # a space more or less


@pytest.mark.parametrize("variant", ["dot", "lin"])
def test_of_500_corruptions_under_a_new_seal_none_is_accepted_that_is_not_itself_a_proof(variant, tmp_path):
    """Another multiplier may prove the same, and a smaller margin is proved as well. Whatever is accepted must state,
    about the same weights, margins that running every sequence confirms."""
    model, text = example(variant)
    model.save(tmp_path / "model.safetensors")
    original = json.loads(text)
    rng = random.Random(1)
    refused = 0
    for _ in range(500):
        document = damaged_document(original, rng)
        if document == original:
            continue
        if accepted(tmp_path, json.dumps(document)) is None:
            refused += 1
            continue
        assert states_the_truth(document, model)
        assert {key: document[key] for key in ("weights_sha256", "model")} == {
            key: original[key] for key in ("weights_sha256", "model")
        }
    assert refused > 300


def test_another_checkpoint_is_not_meant(tmp_path):
    model, text = example("dot")
    broken(model, 0, 1e-6).save(tmp_path / "model.safetensors")
    (tmp_path / "certificate.json").write_text(text)
    with pytest.raises(Refused, match="other weights"):
        check(tmp_path / "certificate.json", tmp_path / "model.safetensors")


def test_a_configuration_that_the_certificate_does_not_know_is_refused(tmp_path):
    """The same weights with a softmax are another model."""
    model, text = example("dot")
    other = CountingTransformer(model.config.replace(softmax=True), weights=model.state_dict())
    other.save(tmp_path / "model.safetensors")
    (tmp_path / "certificate.json").write_text(text)
    with pytest.raises(Refused, match="softmax"):
        check(tmp_path / "certificate.json", tmp_path / "model.safetensors")


@pytest.mark.parametrize("token", [0, 16, 25, 26, 51, 52])
def test_refusals_write_tokens_as_everything_else_does(token):
    assert _where(SimpleNamespace(token=token, position=None), 3) == f"token {task.named(token)}, count 3"


def test_the_checker_loads_nothing_but_python():
    code = (
        "import sys, counting_interp.interp.proof.checker.check\n"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('torch', 'numba', 'numpy', 'probes', 'models', 'scipy', 'jaxtyping')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
