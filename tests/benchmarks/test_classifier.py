"""The benchmark of the verdict, on a few of its own cases: what it prints is what its cases say."""

from __future__ import annotations

import json
import sys
from itertools import islice

import pytest

from benchmarks import classifier, classifier_runs


def test_cases_of_known_mechanism_are_scored_and_summed_up(capsys):
    scored: list[classifier.Scored] = []
    classifier.score(islice(classifier.constructions(40, 5), 31, 36), scored)
    assert len(scored) == 5
    assert not any(one.false or one.contradicted for one in scored)
    assert "5 models, 0 false verdicts" in classifier.matrix(scored)
    assert "0 contradicted" in classifier.proofs(scored)
    assert "wrong" in classifier.calibration(scored)
    assert capsys.readouterr().out == ""  # only false verdicts are printed


def test_a_false_verdict_is_printed_with_its_evidence(capsys):
    (case,) = islice(classifier.constructions(40, 5), 31, 32)
    wrong = classifier.Case(case.kind, case.name, ("unsolved",), case.model)
    scored: list[classifier.Scored] = []
    classifier.score(iter([wrong]), scored)
    assert "1 false verdicts" in classifier.matrix(scored)
    assert capsys.readouterr().out.startswith("FALSE  construction")


@pytest.mark.slow
def test_some_sets_by_themselves_and_two_layers(tmp_path, capsys, monkeypatch):
    """Of two layers nothing is proved; they have a column of their own, as has d <= T/2."""
    first = classifier_runs.FRESH
    deep = next(plan for plan in classifier_runs.two_layers(first) if plan.config.T == 8)
    narrow = next(plan for plan in classifier_runs.narrow(first) if plan.config.T == 8)
    for plan in (deep, narrow):
        classifier_runs.trained(plan, tmp_path)
    out = tmp_path / "rows.json"
    command = ["classifier", str(tmp_path), "--fresh", "--sets", "narrow", "two-layers", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", command)
    classifier.main()
    printed = capsys.readouterr().out
    assert "3 models, 0 false verdicts" in printed  # the narrow one also inside dot
    covered = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.startswith(("lin ", "dot+"))}
    assert (covered["lin"][-1], covered["dot+sftm"][0]) == ("1", "1")
    rows = json.loads(out.read_text())
    assert [row["proved"] is None for row in rows] == ["layers2" in row["name"] for row in rows]


@pytest.mark.slow
def test_the_whole_benchmark_runs_on_a_cache(tmp_path, capsys, monkeypatch):
    """With one small run in the cache, a few constructions, and the sets that take long left out."""
    plan = next(plan for plan in classifier_runs.single_warm(classifier_runs.FRESH) if plan.config.T == 6)
    classifier_runs.trained(plan, tmp_path)
    for name in ("hybrids", "unsolved"):
        monkeypatch.setattr(classifier, name, lambda seed: iter(()))
    out = tmp_path / "rows.json"
    command = ["classifier", str(tmp_path), "--fresh", "--constructions", "2", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", command)
    classifier.main()
    printed = capsys.readouterr().out
    assert "3 models, 0 false verdicts" in printed
    assert plan.file in out.read_text()
