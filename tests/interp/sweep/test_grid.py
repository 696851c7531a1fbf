"""Cells, seeds, order and presets, against the published grid."""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest

from counting_interp.interp.sweep.compare import BUNDLED
from counting_interp.interp.sweep.grid import GRID, PRESETS, SweepCell, SweepJob, ordered
from counting_interp.models.config import VARIANTS
from tests.helpers import ROOT


def test_parameter_counts_are_the_published_ones_in_every_cell():
    with BUNDLED.open() as file:
        published = {(row["model"], int(row["d"]), int(row["p"])): int(row["params"]) for row in csv.DictReader(file)}
    cells = {job.cell for job in PRESETS["fig1"].jobs()}
    assert {(cell.model, cell.d, cell.p): cell.config(0).num_parameters for cell in cells} == published


def test_seeds_are_fixed_for_ever_and_all_different():
    job = SweepJob(SweepCell("bos+sftm", T=32, L=10, d=45, p=2), run=3)
    assert job.seed == 228298512871069
    assert job.name == "bos+sftm_T32_L10_d45_p2_layers1_learned_published_epochs500_run3"
    first = SweepJob(SweepCell("lin", T=32, L=10, d=1, p=1), run=1)
    assert first.seed == 33585448037492
    unusual = SweepCell("dot", T=15, L=5, d=4, p=8, n_layers=2, frozen=True, sampler="paper", epochs=20)
    assert SweepJob(unusual, 0).name == "dot_T15_L5_d4_p8_layers2_random_paper_epochs20_run0"
    assert SweepJob(unusual, 0).seed == 20438455588170
    jobs = [job for name in ("fig1", "random", "T15", "two-layers") for job in PRESETS[name].jobs()]
    assert len({job.seed for job in jobs}) == len(jobs)


def test_a_shorter_run_is_the_beginning_of_the_longer_one():
    cell = {"model": "dot", "T": 32, "L": 10, "d": 4, "p": 4}
    assert SweepJob(SweepCell(**cell, epochs=10), 0).seed == SweepJob(SweepCell(**cell, epochs=500), 0).seed
    assert SweepJob(SweepCell(**cell, epochs=10), 0).name != SweepJob(SweepCell(**cell, epochs=500), 0).name


def test_two_scales_of_queries_and_keys_begin_from_the_same_draw():
    usual, scaled = (SweepJob(SweepCell("bos+sftm", T=32, L=10, d=45, p=2, qk_scale=scale), 3) for scale in (1.0, 0.25))
    assert usual.seed == scaled.seed == 228298512871069
    assert scaled.name == "bos+sftm_T32_L10_d45_p2_layers1_learned_published_epochs500_qk_scale-0.25_run3"
    with pytest.raises(ValueError, match="qk_scale"):
        SweepCell("dot", T=32, L=10, d=4, p=4, qk_scale=-1)


def test_names_differ_wherever_jobs_do():
    jobs = [job for preset in PRESETS.values() for job in preset.jobs()]
    assert len({job.name for job in jobs}) == len(set(jobs))


def test_half_a_sweep_covers_the_whole_grid():
    jobs = ordered(PRESETS["fig1"].jobs())
    round_of = len(VARIANTS) * len(GRID) ** 2
    assert {job.run for job in jobs[:round_of]} == {0}
    tenth = jobs[: round_of // 10]
    for name, values in (("model", VARIANTS), ("d", GRID), ("p", GRID)):
        assert {getattr(job.cell, name) for job in tenth} == set(values)


def test_the_order_is_not_that_of_the_request():
    jobs = PRESETS["quick"].jobs()
    assert ordered(jobs) == ordered(reversed(jobs)) != jobs


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_describes_models_that_exist(name):
    preset = PRESETS[name]
    jobs = preset.jobs()
    assert len(jobs) == len(preset.models) * len(preset.d) * len(preset.p) * preset.runs
    config, axes = jobs[-1].config(), {"T": 32, "L": 10, "n_layers": 1, "frozen": False, **preset.axes}
    assert (config.T, config.L, config.n_layers, config.frozen_embeddings) == (
        axes["T"],
        axes["L"],
        axes["n_layers"],
        axes["frozen"],
    )
    assert config.classes == config.L + 1


def test_planning_a_sweep_imports_no_torch():
    code = "import sys, counting_interp.interp.sweep.grid as p; p.FIG1.jobs(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
