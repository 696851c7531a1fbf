"""Metadata have one schema: what a command may read has its type, whoever wrote the file and whatever its hash says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from counting_interp.data import zoo_names
from counting_interp.models import CountingTransformer
from counting_interp.models.checkpoint import load
from counting_interp.models.checkpoint.contents import Metadata, check_metadata
from counting_interp.util.errors import CheckpointError, InterpError, Refused
from tests.helpers import ROOT, small_model
from tests.models.checkpoint.craft import NASTY, ours

WRONG = {
    "assumed a number": {"assumed": 5},
    "assumed of numbers": {"assumed": [5]},
    "task a list": {"task": ["paper"]},
    "sampler a list": {"task": {"sampler": ["paper"]}},
    "training a text": {"training": NASTY},
    "seed a text": {"seed": NASTY},
    "seed negative": {"seed": -1},
    "step true": {"step": True},
    "step a fraction": {"step": 1.5},
    "accuracy in percent": {"accuracy": 93.0},
    "accuracy without a value": {"accuracy": {}},
    "accuracy of 2": {"accuracy": {"value": 2}},
    "best accuracy a text": {"best_accuracy": {"value": "1"}},
    "history of texts": {"history": {"epochs": ["1"], "losses": [], "accuracies": []}},
    "mechanism a text": {"mechanism": "RC"},
    "label a table": {"mechanism": {"label": {}}},
    "selection a number": {"selection": 5},
    "seeds a number": {"selection": {"best_of_seeds": 5, "accuracies": []}},
    "versions of numbers": {"versions": {"torch": 2}},
    "config a list": {"config": [1]},
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("form", ["pt", "safetensors"])
def test_a_field_of_the_wrong_kind_is_refused_by_its_name_though_the_hash_holds(tmp_path, name, form):
    path = tmp_path / "file.pt"
    path.write_bytes(ours(form=form, fields=WRONG[name]))
    (field,) = WRONG[name]
    with pytest.raises(CheckpointError, match=rf"metadata of the wrong kind .*\$\.{field}") as caught:
        load(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("field", Metadata.__struct_fields__)
def test_no_field_may_be_null(field):
    with pytest.raises(Refused, match=rf"\$\.{field}"):
        check_metadata({"format_version": 1, "config": {}, field: None})


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    model = small_model("lin")
    model.metadata = {"assumed": "everything"}
    with pytest.raises(InterpError, match="not written, as it has metadata of the wrong kind"):
        model.save(tmp_path / "a.pt")
    assert not list(tmp_path.iterdir())


def test_other_fields_may_hold_anything(tmp_path):
    model = small_model("lin")
    model.metadata = {"mine": {"a": [None, 1, "x"]}, "task": {"sampler": "mine", "more": 1}}
    model.save(tmp_path / "a.pt")
    read = load(tmp_path / "a.pt").metadata
    assert (read["mine"], read["task"]) == (model.metadata["mine"], model.metadata["task"])


@pytest.mark.parametrize("name", zoo_names())
def test_the_files_of_the_zoo_fit(name):
    check_metadata(CountingTransformer.load(name).metadata)


def test_an_accuracy_may_be_a_bare_number(tmp_path):
    model = small_model("lin")
    model.metadata["accuracy"] = 0.93
    model.save(tmp_path / "theirs.pt")
    assert load(tmp_path / "theirs.pt").metadata["accuracy"] == {"value": 0.93}
    model.metadata["accuracy"] = 93.0
    with pytest.raises(InterpError, match="accuracy"):
        model.save(tmp_path / "percent.pt")


def test_the_largest_seed_that_training_takes_can_be_written_and_read(tmp_path):
    model = small_model("dot", T=4, L=3, d=2, p=2)
    model.metadata = {"seed": 2**63 - 1, "selection": {"best_of_seeds": [2**63 - 1], "accuracies": [0.5]}}
    model.save(tmp_path / "model.pt")
    assert load(tmp_path / "model.pt").metadata["seed"] == 2**63 - 1


def test_the_schema_is_prepared_when_it_is_imported():
    """msgspec 0.22 crashes where two threads prepare a schema at the same time, as `interp classify zoo` once did."""
    script = """
import gc
from counting_interp.models.checkpoint import contents
for schema in (contents.Metadata, contents.Task):
    assert "StructInfo" in [type(each).__name__ for each in gc.get_referents(schema)]
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)
