"""AnswerCounts matrices, accuracies and tables, on outcomes written by hand."""

import csv
import io

import numpy as np
import pytest

from counting_interp.interp.llm.prompts import Query
from counting_interp.interp.llm.result import (
    AnsweredQuery,
    Evaluation,
    QueryGroup,
    accuracy_csv,
    accuracy_rows,
    answers_csv,
    clustered_accuracy,
    clustered_slope,
    confusion_csv,
    read_evaluation,
    wilson,
)
from tests.helpers import assert_close


def outcome(truth, scored, generated, number=0, category="letters", prompt="p", sampling="paper", text="x"):
    query = Query(sampling, category, prompt, number, ("A", "B"), "A", truth, f"{category} {number} {truth}")
    return AnsweredQuery(query, (0.25, 0.5, 0.125), scored, text, generated)


RESULT = Evaluation(
    "tiny",
    2,
    (
        outcome(0, 0, 0),
        outcome(1, 1, None),
        outcome(1, 2, 7, number=1),
        outcome(2, 2, 2, number=1, category="months", text='a "3"\nb,'),
        outcome(2, 0, 1, number=1, sampling="uniform"),
    ),
    {},
)


def test_rows_are_truths_and_columns_are_answers():
    assert RESULT.confusion().counts.tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0]]
    assert RESULT.confusion(measure="generated").counts.tolist() == [[1, 0, 0, 0], [0, 0, 0, 2], [0, 1, 1, 0]]


def test_a_cell_holds_only_its_own():
    assert RESULT.confusion(QueryGroup(category="months")).counts.sum() == 1
    assert RESULT.confusion(QueryGroup(sampling="paper")).counts.sum() == 4
    assert RESULT.confusion(QueryGroup("letters", "p", "uniform")).counts.tolist()[2] == [1, 0, 0, 0]


def test_shares_are_conditional_on_the_truth():
    shares = RESULT.confusion(QueryGroup(sampling="paper")).shares
    assert_close(shares[1], [0, 0.5, 0.5, 0])
    assert np.isnan(RESULT.confusion(QueryGroup(category="months")).shares[0]).all()


def test_accuracy_counts_no_number_as_wrong():
    assert RESULT.accuracy().value == pytest.approx(3 / 5)
    assert RESULT.accuracy(measure="generated").value == pytest.approx(2 / 5)
    assert RESULT.accuracy().questions == 5
    assert RESULT.accuracy().lists == 3


def test_wilson_intervals_as_published():
    """Brown, Cai and DasGupta's formula at n = 10: 0, 5 and 10 hits."""
    assert_close(wilson(0.0, 10), (0.0, 0.27753), 1e-4)
    assert_close(wilson(0.5, 10), (0.23659, 0.76341), 1e-4)
    assert_close(wilson(1.0, 10), (0.72247, 1.0), 1e-4)


def test_independent_questions_get_the_plain_interval_and_copies_that_of_one_per_list():
    right = [number % 2 == 0 for number in range(40)]
    apart = clustered_accuracy(right, range(40))
    assert_close((apart.low, apart.high), wilson(0.5, 39.0), 0.01)
    copies = clustered_accuracy(right * 10, [*range(40)] * 10)
    assert copies.questions == 400
    assert_close((copies.low, copies.high), (apart.low, apart.high), 0.01)


def test_where_all_answers_agree_the_interval_is_that_of_the_lists():
    perfect = clustered_accuracy([True] * 120, [number // 12 for number in range(120)])
    assert_close((perfect.low, perfect.high), wilson(1.0, 10))


def test_intervals_cover():
    """Questions of a list share their luck: 95 % intervals hold the truth in at least 92 % of 400 studies; intervals
    that take questions for independent would not (about 78 %)."""
    rng = np.random.default_rng(0)
    lists = np.repeat(np.arange(60), 10)
    covered = naive = 0
    for _ in range(400):
        luck = rng.beta(2, 3, size=60)
        right = rng.random(600) < luck[lists]
        interval = clustered_accuracy(right, lists)
        covered += interval.low <= 0.4 <= interval.high
        low, high = wilson(right.mean(), 600)
        naive += low <= 0.4 <= high
    assert covered / 400 > 0.92
    assert naive / 400 < 0.9


def test_answers_as_csv_read_back():
    rows = list(csv.DictReader(io.StringIO(answers_csv(RESULT))))
    assert len(rows) == 5
    assert rows[3]["text"] == 'a "3"\nb,'
    assert rows[1]["generated"] == ""
    assert (rows[2]["truth"], rows[2]["scored"], rows[2]["p1"]) == ("1", "2", "0.500000")


def test_accuracy_rows_name_every_cell_and_the_whole():
    rows = accuracy_rows(Evaluation("tiny", 2, RESULT.outcomes[:3], {}))
    assert [(row["sampling"], row["category"], row["measure"]) for row in rows] == [
        ("paper", "letters", "scored"),
        ("all", "all", "scored"),
        ("paper", "letters", "generated"),
        ("all", "all", "generated"),
    ]
    assert "paper,letters,p,scored,0.666667" in accuracy_csv(Evaluation("tiny", 2, RESULT.outcomes[:3], {}))


def test_cells_without_questions_have_no_accuracy():
    """months were asked about under one sampling only."""
    rows = accuracy_rows(RESULT)
    assert sum(row["category"] == "months" for row in rows) == 2


def test_confusion_csv_has_a_row_per_truth():
    rows = list(csv.DictReader(io.StringIO(confusion_csv(RESULT))))
    assert rows[1] == {
        "sampling": "paper",
        "category": "letters",
        "prompt": "p",
        "measure": "scored",
        "truth": "1",
        "answer0": "0",
        "answer1": "1",
        "answer2": "1",
        "other": "0",
    }


def test_names_cannot_become_markup():
    hostile = Evaluation("<script>x</script>", 2, (outcome(0, 0, 0, category="<b>"),), {})
    page = hostile._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "100.0 %" in page


def test_the_slope_is_that_of_least_squares():
    truths, answers, lists = [0, 1, 2, 3, 1, 2], [1, 1, 2, 4, 0, 3], [0, 0, 0, 1, 1, 2]
    slope = clustered_slope(truths, answers, lists)
    assert_close(slope.value, np.polyfit(truths, answers, 1)[0], 1e-12)
    assert slope.low < slope.value < slope.high


def test_the_interval_of_a_slope_covers_the_truth():
    """Answers of one list share an error: an interval that took them as independent would cover far less."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(300):
        lists = np.repeat(np.arange(40), 10)
        truths = rng.integers(0, 11, 400)
        answers = 0.4 * truths + rng.normal(size=40)[lists] * (truths - 5) / 3 + rng.normal(size=400)
        slope = clustered_slope(truths.tolist(), answers.tolist(), lists.tolist())
        covered += slope.low <= 0.4 <= slope.high
    assert 0.90 <= covered / 300 <= 0.99


@pytest.mark.parametrize(("factor", "counts"), [(1, True), (0, False)])
def test_the_gate_asks_whether_answers_grow_with_the_count(factor, counts):
    outcomes = tuple(
        AnsweredQuery(
            Query("paper", "letters", "p", n, ("A",), "A", n % 5, ""), (1.0,) * 6, factor * (n % 5), None, None
        )
        for n in range(20)
    )
    slope = Evaluation("m", 5, outcomes, {}).slope()
    assert slope.counts == counts
    assert_close(slope.value, factor, 1e-12)
    assert Evaluation("m", 5, outcomes[:1], {}).slope() is None


def test_a_model_that_once_writes_nothing_still_has_both_measures(tmp_path):
    def outcome(number, text):
        query = Query("paper", "letters", "p", number, ("A", "B"), "A", 1, "")
        return AnsweredQuery(query, (0.1, 0.9, 0.0), 1, text, 1 if text else None)

    for texts, measures in ((("1 time", ""), ("scored", "generated")), ((None, None), ("scored",))):
        written = Evaluation("m", 2, tuple(outcome(number, text) for number, text in enumerate(texts)), {})
        (tmp_path / "answers.csv").write_text(answers_csv(written))
        again = read_evaluation(tmp_path)
        assert again.measures == measures
        assert again.outcomes[1].text == texts[1]
