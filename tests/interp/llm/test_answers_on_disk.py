"""Answers survive a kill at any moment, and are never mixed with those of another model."""

import csv
import io
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from counting_interp.interp.llm.answers import NAME, Answer, Store
from counting_interp.interp.llm.evaluation import Watcher, evaluate
from counting_interp.interp.llm.result import answers_csv
from counting_interp.util.errors import InterpError
from tests.helpers import ROOT
from tests.interp.llm.tiny import BOOK, llama, tokenizer

TOK = tokenizer("pieces")
SMALL = BOOK.select(["letters"], ["compare-position", "compare-semantic"])
RUN = """
import os, signal, sys
from counting_interp.interp.llm.evaluation import evaluate
from counting_interp.interp.llm.evaluation import Watcher
from counting_interp.interp.llm.answers import Store
from tests.interp.llm.test_answers_on_disk import SMALL, TOK, llama

folder, when = sys.argv[1], int(sys.argv[2])
add = Store.add

def killed_in_the_middle(self, answers):
    # half of the batch written, nothing committed
    rows = list(answers)
    if len(self.answers) >= when:
        self._database.execute("BEGIN")
        self._database.execute("INSERT INTO answers VALUES ('half', '[]', NULL)")
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, rows)

Store.add = killed_in_the_middle
evaluate(llama(len(TOK)), TOK, book=SMALL, samplings=["paper"], lists=2, batch_size=7, folder=folder)
"""


def run(folder=None, model=None, **options):
    settings = {"book": SMALL, "samplings": ["paper"], "lists": 2, "batch_size": 7, "folder": folder, **options}
    return evaluate(model or llama(len(TOK)), TOK, **settings)


def assert_same_answers(one, other):
    """Up to rounding: prompts meet in other batches, and sums over a batch depend on its size."""
    tables = [list(csv.DictReader(io.StringIO(answers_csv(result)))) for result in (one, other)]
    assert len(tables[0]) == len(tables[1])
    for row, expected in zip(*tables, strict=True):
        assert row.keys() == expected.keys()
        for name, value in expected.items():
            if value != row[name]:
                assert float(row[name]) == pytest.approx(float(value), rel=1e-4, abs=1e-5), name


@pytest.mark.slow
def test_a_run_killed_in_the_middle_of_a_batch_is_resumed_to_the_same_bytes(tmp_path):
    whole = answers_csv(run())
    command = [sys.executable, "-c", RUN, str(tmp_path), "21"]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=200)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    calls = []
    resumed = run(tmp_path, watcher=Watcher(calls.append))
    assert calls[0].answered == 21
    assert answers_csv(resumed) == whole


def test_a_second_run_asks_nothing(tmp_path):
    first = run(tmp_path)
    calls = []
    assert answers_csv(run(tmp_path, watcher=Watcher(calls.append))) == answers_csv(first)
    assert len(calls) == 1
    assert calls[0].answered == calls[0].prompts


def test_more_lists_and_other_prompts_ask_only_what_is_new(tmp_path):
    run(tmp_path, lists=1)
    calls = []
    longer = run(tmp_path, lists=2, watcher=Watcher(calls.append))
    assert 0 < calls[0].answered < calls[0].prompts
    assert_same_answers(longer, run())
    calls.clear()
    run(tmp_path, lists=2, book=SMALL.select(prompts=["compare-semantic"]), watcher=Watcher(calls.append))
    assert calls[0].answered == calls[0].prompts


def test_generation_is_added_to_answers_without_it(tmp_path):
    assert run(tmp_path, lists=1, generate=False).measures == ("scored",)
    assert_same_answers(run(tmp_path, lists=1), run(lists=1))


def test_another_model_is_refused(tmp_path):
    run(tmp_path, lists=1)
    with pytest.raises(InterpError, match=r"given with weights = .* use another output folder"):
        run(tmp_path, lists=1, model=llama(len(TOK), seed=1))
    with pytest.raises(InterpError, match=r'given with dtype = "float32", this run has "float64"'):
        run(tmp_path, lists=1, model=llama(len(TOK)).double())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InterpError, match=r"cannot be written: .*; choose another output folder"):
        Store(tmp_path / "file" / "folder", {})


def test_two_runs_at_once_are_refused(tmp_path):
    with Store(tmp_path, {"weights": 1}) as store:
        store.add([("text", Answer((0.25, 0.75), None))])
        with pytest.raises(InterpError, match="another run is writing to this folder"):
            Store(tmp_path, {"weights": 1})
    with Store(tmp_path, {"weights": 1}) as store:
        assert store.answers == {"text": Answer((0.25, 0.75), None)}


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / "answers.sqlite").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(InterpError, match="not a readable file of answers"):
        Store(tmp_path, {})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("probabilities", "[0.5, NaN]"),
        ("probabilities", "[0.5, 1e999]"),
        ("probabilities", "[0.5, 7]"),
        ("probabilities", "[]"),
        ("probabilities", "{"),
        ("probabilities", '{"a": 1}'),
        ("probabilities", '["0.5", "0.5"]'),
        ("probabilities", b"\xff"),
        ("probabilities", 5),
        ("generated", b"\xff"),
    ],
)
def test_a_row_that_was_changed_is_named(tmp_path, column, value):
    with Store(tmp_path, {}) as store:
        store.add([("a question", Answer((0.5, 0.25), "one")), ("another", Answer((0.5, 0.25), "one"))])
    with closing(sqlite3.connect(tmp_path / NAME)) as database, database:
        database.execute(f"UPDATE answers SET {column} = ? WHERE text = 'a question'", (value,))
    with pytest.raises(InterpError, match=r"the answer to 'a question' cannot be used: .*; delete that row"):
        Store(tmp_path, {})


def test_what_is_no_probability_is_not_kept(tmp_path):
    with Store(tmp_path, {}) as store:
        with pytest.raises(InterpError, match="the answer to 'a question' cannot be used"):
            store.add([("fine", Answer((0.5, 0.25), None)), ("a question", Answer((0.5, float("nan")), None))])
        assert store.answers == {}
    assert Store(tmp_path, {}).answers == {}
