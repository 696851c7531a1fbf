"""Small files with large models: done in little memory, or refused in one sentence before anything begins."""

from __future__ import annotations

import resource

import pytest
import torch
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.interp.figures import draw
from counting_interp.interp.proof import prove
from counting_interp.models import CountingConfig, CountingTransformer
from counting_interp.probes.catalogue import CATALOGUE, applicable, find
from counting_interp.probes.output_curves import StepFunction
from counting_interp.util.errors import InterpError
from tests.helpers import small_model

LONGEST = CountingConfig.parse("bos+sftm", T=4096, L=4096, d=1, p=1)
PAPER = [CountingConfig.parse("bos+sftm", T=T, L=L, d=128, p=128) for T, L in ((32, 10), (64, 10), (32, 30))]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    CountingTransformer(CountingConfig.parse("dot+sftm", T=1000, L=1000, d=1, p=1)).save(path)
    assert path.stat().st_size < 20_000
    return path


@pytest.mark.parametrize("config", PAPER, ids=lambda config: f"T={config.T}, L={config.L}")
def test_nothing_is_refused_at_the_papers_sizes(config):
    assert {probe.name: probe.too_large(config) for probe in applicable(config)} == dict.fromkeys(
        probe.name for probe in applicable(config)
    )


def test_what_takes_minutes_or_gigabytes_is_refused_in_one_sentence():
    refused = {probe.name: reason for probe in CATALOGUE if (reason := probe.too_large(LONGEST))}
    expected = {"attention", "cue-conflict", "bos-share", "readout", "output-curves", "count-sweep"}
    assert expected | {"confusion", "overlap", "step-function"} <= set(refused)
    assert refused["output-curves"].startswith("output-curves needs ")
    for reason in refused.values():
        assert "T=4096, L=4096, d=1, p=1; give it a smaller one" in reason


@pytest.mark.parametrize(
    ("command", "code"),
    [(("probe", "readout"), 1), (("classify",), 3), (("prove", "--time", "2"), 3)],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_commands_refuse_and_go_on(large, tmp_path, command, code):
    good = tmp_path / "good.safetensors"
    small_model("dot", T=4, L=3, d=2, p=2).save(good)
    done = CliRunner().invoke(app, [*command, str(large), str(good)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    assert "dot" in done.stdout or str(good) in done.stdout  # the good file, by its model where a long path is cut
    assert f"interp: {large}: " in done.stderr


def test_figures_of_long_sequences_add_their_marks_at_once():
    """Added one by one, plotly copied all marks for each: minutes at L = 1000."""
    model = CountingTransformer(CountingConfig.parse("dot+sftm", T=80, L=80, d=2, p=2))
    (long,) = draw(find("attention").run(model))
    assert not long.layout.shapes
    assert long.caption.startswith("Attention pattern for ")
    assert len(long.caption) < 400
    steps = StepFunction(0, torch.arange(300.0), -(torch.arange(300.0) ** 2), torch.arange(300.0), torch.arange(299.0))
    (drawing,) = draw(steps)
    assert len(drawing.layout.shapes) == 300 + 300 + 299  # bands, values, boundaries
    assert {shape.yref for shape in drawing.layout.shapes} == {"y domain"}


def test_a_proof_by_running_keeps_to_its_time_and_memory():
    """It ran 512 sequences at a time, whatever their length, and looked at the clock after 4,000."""
    model = CountingTransformer(CountingConfig.parse("dot+sftm", T=600, L=600, d=1, p=1, n_layers=2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = prove(model, seconds=0.2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000_000  # kB
    assert outcome.verdict in ("undecided", "refuted")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-T", "4096", "-L", "4096"), "training needs 10 GB for bos+sftm, T=4096, L=4096, d=1, p=1"),
        (("-T", "200", "-L", "200", "--until-proved"), "a round of repair needs "),
    ],
)
def test_training_that_would_not_end_is_refused_before_it_begins(tmp_path, arguments, reason):
    sizes = ("--model", "bos+sftm", "-d", "1", "-p", "1", *arguments)
    done = CliRunner().invoke(app, ["train", *sizes, "-o", str(tmp_path / "ck.pt")])
    assert isinstance(done.exception, InterpError), done.output
    assert str(done.exception).startswith(reason)
    assert not list(tmp_path.iterdir())


def test_repair_of_a_large_model_is_refused_before_it_begins(large, tmp_path):
    done = CliRunner().invoke(app, ["repair", str(large), "-o", str(tmp_path / "ck.pt")])
    assert isinstance(done.exception, InterpError), done.output
    assert str(done.exception).startswith("a round of repair needs 11,154 GB on ")
    assert not list(tmp_path.iterdir())
