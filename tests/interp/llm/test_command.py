"""`interp llm` on a saved model folder, in a process of its own."""

import csv
import json

import pytest
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from tests.helpers import run_interp
from tests.interp.llm.tiny import save

RUNNER = CliRunner()
QUICK = ("--device", "cpu", "--lists", "1", "--categories", "letters", "--prompts", "compare-position,compare-semantic")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    save(path)
    return path


@pytest.mark.slow
def test_from_a_folder_to_tables_and_figures(folder, tmp_path):
    out = tmp_path / "out"
    run = run_interp("llm", "--model", folder, "-o", out, *QUICK)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].split() == ["sampling", "category", "prompt", "scored", "generated"]
    assert len(lines) == 7
    assert lines[1].startswith("uniform")
    assert "%" in lines[-2]
    assert lines[-1].startswith("slope of the answer over the true count: ")
    assert lines[-1].endswith("tiny does not count (that takes 0.5), so there is no mechanism to look for")
    assert "44 prompts, about" in run.stderr
    assert {path.name for path in out.iterdir()} == {
        ".made-by-interp",
        "accuracy.csv",
        "answers.csv",
        "answers.sqlite",
        "confusion.csv",
        "figures",
    }
    names = {path.name for path in (out / "figures").iterdir()}
    assert {
        f"confusion-{view}-{how}.html" for view in ("all", "uniform", "paper") for how in ("scored", "generated")
    } <= names
    with (out / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 44
    assert all(row["truth"] == str(row["items"].split().count(row["asked"])) for row in rows if row["asked"].isalpha())

    again = RUNNER.invoke(app, ["llm", "--model", str(folder), "-o", str(out), *QUICK, "--json"])
    assert again.exit_code == 0, again.stderr
    assert "(44 answered before)" in again.stderr
    document = json.loads(again.stdout)
    assert document["schema_version"] == 1
    assert document["model"] == "tiny"
    assert document["results"][-1]["questions"] == 44
    assert document["settings"]["dtype"] == "float32"
    slopes = document["slopes"]
    assert slopes["scored"]["low"] <= slopes["scored"]["value"] <= slopes["scored"]["high"]
    assert set(slopes) == {"scored", "generated"}


def test_dry_run_shows_the_prompts_and_loads_no_model(tmp_path):
    run = RUNNER.invoke(app, ["llm", "--model", "nobody/nothing", "-o", str(tmp_path / "out"), "--dry-run"])
    assert run.exit_code == 0, run.output
    assert run.stdout.count("(answer: ") == 24
    assert "we find that the first item of the list appears " in run.stdout
    assert "26,400 questions" in run.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "x", "--categories", "fruits"), "unknown category 'fruits'; the prompt file has letters"),
        (("--model", "x", "--prompts", ","), "no prompt was chosen"),
        (("--model", "x", "--sampling", "random"), "the sampling must be one of"),
        (("--model", "x", "--batch-size", "many"), "--batch-size is a number from 1 or auto, got 'many'"),
        (("--model", "x", "--dtype", "int4"), "dtype must be one of float16"),
        (("--model", "x", "--device", "quantum"), "device 'quantum' cannot be used here"),
        (("--model", "x", "--format", "gif"), "formats are html"),
        (("--model", "x", "--prompt-file", "none.json"), "prompt file none.json: there is no such file"),
        (("--model", "x", "--length", "30"), "the length of a list must be between 2 and 20, got 30"),
        (("--model", "x", "--lists", "0"), "--lists"),
        ((), "--model"),
    ],
)
def test_bad_input_is_named_and_is_a_usage_error(tmp_path, options, message):
    run = RUNNER.invoke(app, ["llm", "--sampling", "uniform", "-o", str(tmp_path / "out"), *options])
    assert run.exit_code == 2
    assert message in run.stderr
    assert run.stdout == ""


@pytest.mark.slow
def test_a_missing_model_says_how_to_point_at_a_folder(tmp_path):
    run = run_interp("llm", "--model", "./none", "-o", tmp_path / "out", "--lists", "1")
    assert run.returncode == 3
    assert "./none: this model folder does not exist. To use a local copy, give its folder: --model PATH" in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""
