"""A verdict in every form in which it travels."""

from __future__ import annotations

import csv
import dataclasses
import io

import pytest

from counting_interp.interp.cli.classify import as_text
from counting_interp.interp.pages.atlas import settings_of
from counting_interp.interp.sweep.statistics import mechanism_of, verdict_of
from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.interp.verdict import Mechanism, Verdict, classify
from counting_interp.interp.verdict.files import Classified
from counting_interp.interp.verdict.verdict import EXPECTED, MEANINGS, NAMES, allows
from counting_interp.models import CountingConfig
from counting_interp.models.constructions import construct
from counting_interp.probes.shares import Estimate
from counting_interp.util.errors import InterpError
from counting_interp.util.plain_json import to_json
from tests.interp.sweep.test_table import row as run_row


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    return classify(construct("rc-bos", T=9, L=5), quick=True)


def test_at_a_prompt_it_is_one_line(verdict):
    assert len(repr(verdict)) < 200
    assert repr(verdict).startswith("<RC: shares RC 1.00 [1.00, 1.00], IC 0.00")


def test_as_text_it_says_the_mechanism_then_every_number_beside_what_each_mechanism_would_give(verdict):
    text = str(verdict)
    assert text.startswith("RC: relation-based. Attention does the counting")
    for estimate in verdict.estimates:
        (line,) = [line for line in text.splitlines() if line.strip().startswith(NAMES[estimate.name])]
        assert line.split()[-3:] == list(EXPECTED[estimate.name])


def test_it_draws_what_was_measured_and_says_why_a_verdict_of_a_table_cannot(verdict):
    figure = verdict.plot()
    assert figure.name == "transplants"
    assert "T=9, L=5" in figure.about
    assert {row["kind"] for row in figure.table} == {"own", "relation", "inventory", "null"}
    read = Verdict.from_row(verdict.to_row())
    assert read is not None
    with pytest.raises(InterpError, match="read from a table"):
        read.plot()


def test_every_mechanism_has_its_words():
    assert set(MEANINGS) == {mechanism.value for mechanism in Mechanism}
    assert all(mechanism.words.endswith(".") for mechanism in Mechanism)


def test_a_row_reads_back_as_the_same_verdict(verdict):
    row = {f"verdict_{name}": value for name, value in verdict.to_row().items()}
    back = Verdict.from_row(row, "verdict_")
    assert back is not None
    assert back.to_row() == verdict.to_row()


def test_labels_of_version_0_2_are_no_verdict():
    assert Verdict.from_row({"label": "RC", "case": "relation", "accuracy": 0.99, "kept": 0.1}) is None


def test_a_row_without_a_verdict_has_none():
    assert Verdict.from_row({"final": 99.0}, "verdict_") is None
    assert Verdict.from_row({"verdict_mechanism": "<script>"}, "verdict_") is None


def test_a_new_number_is_found_in_text_html_json_table_and_page(verdict, tmp_path):
    """One function measures it, and nothing else has to change."""
    wider = dataclasses.replace(verdict, estimates=(*verdict.estimates, Estimate("novel", 0.25, 0.2, 0.3, "made up")))
    assert "novel" in str(wider)
    assert "novel" in wider._repr_html_()
    assert wider._repr_html_().count("<td") == wider._repr_html_().count("<td style='text-align:left'")
    assert '"novel"' in to_json(wider.to_dict())
    run = run_row(0, 99.0, 99.0, measured={f"verdict_{name}": value for name, value in wider.to_row().items()})
    (tmp_path / "table.csv").write_text(write_runs([run]))
    (cells,) = csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text()))
    assert float(cells["verdict_novel"]) == 0.25
    (back,) = read_runs(tmp_path / "table.csv")
    assert mechanism_of(back) == "RC"
    assert verdict_of(back).numbers["novel"] == 0.25
    (setting,) = settings_of([back])
    assert ["novel", 0.25, 0.2, 0.3] in setting["cells"][0]["runs"][0]["estimates"]


def test_what_a_file_had_to_assume_is_said_beside_it(verdict, tmp_path):
    row = Classified(tmp_path / "x.pt", verdict, {"n_layers": 1}, "bos", None, None, ("softmax \x1b[31m",))
    assert "assumed     softmax" in as_text(row.path, row)
    assert "\x1b" not in as_text(row.path, row)


@pytest.mark.parametrize(
    ("variant", "p", "words"),
    [
        ("lin", 8, "only IC"),
        ("dot+sftm", 8, "not RC"),
        ("bos", 1, "only RC"),
        ("bos", 3, "not IC"),
        ("dot", 8, "RC and IC"),
    ],
)
def test_what_the_sizes_allow(variant, p, words):
    assert words in allows(CountingConfig.parse(variant, T=8, L=5, d=9, p=p))


def test_the_odds_are_those_of_models_of_known_mechanism(verdict):
    right, models = verdict.odds
    assert 0 < right <= models
    assert f"none of {models} models of known mechanism" in str(verdict)
    assert right == models
    assert dataclasses.replace(verdict, spec=None).odds is None
