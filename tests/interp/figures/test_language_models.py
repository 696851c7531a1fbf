"""The figures of a language model's answers hold the numbers of its result, in the paper's orientation."""

import numpy as np
import pytest

from counting_interp.interp.figures.confusion import accuracy_chart, all_figures, confusion_sheet
from counting_interp.interp.llm.prompts import Query
from counting_interp.interp.llm.result import AnsweredQuery, Evaluation, QueryGroup


def outcome(truth, said, number, *, category="letters", prompt="compare", sampling="paper"):
    query = Query(sampling, category, prompt, number, ("A",), "A", truth, "text")
    return AnsweredQuery(query, (0.0,) * 11, said, str(said), None if said == 9 else said)


def result(name="tiny"):
    """Everything is answered with 3, but nines with 9, which are not written."""
    outcomes = [
        outcome(truth, 9 if truth == 9 else 3, number, category=category, prompt=prompt, sampling=sampling)
        for sampling in ("uniform", "paper")
        for category in ("letters", "months")
        for prompt in ("compare", "summarize", "a third")
        for number, truth in enumerate((1, 3, 3, 9))
    ]
    return Evaluation(name, 10, tuple(outcomes), {})


def heatmaps(figure):
    return [trace for trace in figure.data if trace.type == "heatmap"]


def test_a_panel_per_category_and_prompt():
    figure = confusion_sheet(result())
    assert len(heatmaps(figure)) == 6
    titles = [annotation.text for annotation in figure.layout.annotations]
    assert titles == ["compare", "summarize", "a third", "letters", "months"]


def test_truth_runs_along_x_and_the_answer_along_y():
    """All ones answered by three: the column x = 1 has its mass at y = 3."""
    panel = np.array(heatmaps(confusion_sheet(result(), "paper"))[0].z)
    assert panel.shape == (12, 11)
    assert panel[3, 1] == 1.0
    assert panel[3, 3] == 1.0
    assert panel[9, 9] == 1.0
    assert np.isnan(panel[:, 0]).all()


def test_what_is_no_number_is_drawn_as_other():
    panel = np.array(heatmaps(confusion_sheet(result(), "paper", "generated"))[0].z)
    assert panel[11, 9] == 1.0
    assert panel[9, 9] == 0.0


def test_the_range_is_fixed_and_the_table_adds_up():
    figure = confusion_sheet(result())
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 0.6)
    assert sum(row["questions"] for row in figure.table) == len(result().outcomes)
    paper = confusion_sheet(result(), "paper")
    assert sum(row["questions"] for row in paper.table) == len(result().outcomes) / 2


def test_bars_are_accuracies_with_their_intervals():
    figure = accuracy_chart(result())
    bar = figure.data[0]
    accuracy = result().accuracy(QueryGroup("letters", "compare", "uniform"))
    assert bar.y[0] == pytest.approx(75.0)
    assert bar.y[0] + bar.error_y.array[0] == pytest.approx(100 * accuracy.high)
    assert bar.y[0] - bar.error_y.arrayminus[0] == pytest.approx(100 * accuracy.low)
    assert figure.layout.yaxis.range == (0, 100)


def test_all_figures_have_names_of_their_own():
    names = [figure.name for figure in all_figures(result())]
    assert len(names) == len(set(names)) == 8
    one = Evaluation("tiny", 10, tuple(o for o in result().outcomes if o.query.sampling == "paper"), {})
    assert [figure.name for figure in all_figures(one)][:2] == ["confusion-paper-scored", "confusion-paper-generated"]


def test_names_cannot_become_markup():
    figure = confusion_sheet(result("<b>bold</b>"))
    assert "How &lt;b&gt;bold" in figure.titled()["layout"]["title"]["text"]
