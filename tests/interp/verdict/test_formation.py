"""The story of a run: when its mechanism forms, and what came before."""

from __future__ import annotations

from pathlib import Path

from counting_interp.interp.verdict.files import Classified, runs
from counting_interp.interp.verdict.verdict import Mechanism, Verdict


def snapshot(step: int | None, label: str, leans: str | None = None, seed: int = 0, folder: str = "run") -> Classified:
    config = {"T": 8, "L": 4, "d": 8, "p": 8, "n_layers": 1}
    verdict = Verdict(Mechanism(label), (), 1.0, "paper", leans=Mechanism(leans) if leans else None)
    return Classified(Path(folder, f"{step}.pt"), verdict, config, "dot", step, seed, ())


def test_forms_at_the_first_step_from_which_it_stays():
    labels = ["unsolved", "RC", "mixed", "RC", "RC"]
    (run,) = runs([snapshot(10 * i, label) for i, label in reversed(list(enumerate(labels)))])
    assert run.labels == tuple(labels)
    assert run.forms_at == 30
    assert run.passes_through == ("mixed",)
    assert "after passing through mixed" in str(run)


def test_passing_from_one_mechanism_to_the_other():
    (run,) = runs([snapshot(1, "IC"), snapshot(2, "mixed"), snapshot(3, "RC")])
    assert run.passes_through == ("IC", "mixed")
    assert run.leans == ("IC", "mixed", "RC")


def test_leaning_while_unsolved_is_mentioned():
    (run,) = runs([snapshot(0, "unsolved"), snapshot(1, "unsolved", "IC"), snapshot(2, "RC")])
    assert "leaned towards IC" in str(run)
    assert run.forms_at == 2


def test_an_unsolved_run_forms_nothing():
    (run,) = runs([snapshot(1, "RC"), snapshot(2, "unsolved")])
    assert run.forms_at is None
    assert "ends unsolved at step 2" in str(run)


def test_other_seeds_folders_and_files_without_steps_are_not_one_run():
    assert runs([snapshot(1, "RC"), snapshot(2, "RC", seed=1)]) == []
    assert runs([snapshot(1, "RC"), snapshot(2, "RC", folder="other")]) == []
    assert runs([snapshot(None, "RC"), snapshot(None, "IC")]) == []
    assert runs([snapshot(1, "RC"), snapshot(1, "IC")]) == []
