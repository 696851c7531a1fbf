"""Every question says what it should, and its true answer is right."""

import json
import re

import pytest
import torch

from counting_interp.interp.llm.lists import sample_list
from counting_interp.interp.llm.prompt_file import read_prompts
from counting_interp.interp.llm.queries import all_queries
from counting_interp.models import task
from tests.helpers import ROOT
from tests.interp.llm.tiny import count_in

BOOK = read_prompts()


def first_list(prompt, category="letters", **options):
    return all_queries(BOOK.select([category], [prompt]), ["paper"], **{"lists": 1, "length": 10, "seed": 3, **options})


def test_a_whole_prompt_of_each_type():
    by_type = {name: first_list(name, "animals")[1] for name in BOOK.prompts}
    written = "['" + "', '".join(by_type["compare-position"].items) + "']"
    compare = f"{written}: By comparing all ten items in the previous list to one another, we find that "
    summarize = (
        f"{written}: By summarising the occurrences of animals of the land in the previous list of ten items, "
        "we find that "
    )
    assert by_type["compare-position"].text == compare + "the second item of the list appears "
    assert by_type["summarize-position"].text == summarize + "the second item of the list appears "
    assert by_type["compare-semantic"].text == compare + "'cat' appears "
    assert by_type["summarize-semantic"].text == summarize + "'cat' appears "


def test_positional_questions_name_each_place_once_and_in_order():
    queries = first_list("compare-position")
    named = [re.findall(r"the (\w+) item of", query.text)[0] for query in queries]
    assert named == ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
    assert [query.target for query in queries] == list(range(1, 11))


def test_semantic_questions_name_every_item_and_the_counts_add_up_to_the_list():
    queries = first_list("compare-semantic")
    assert [query.target for query in queries] == list("ABCDEFGHIJKL")
    assert sum(query.truth for query in queries) == 10
    assert {query.truth for query in queries if query.target not in query.items} == {0}


def test_positional_truth_is_the_task():
    """The count of a position is what the toy models are trained on: `task.histogram`."""
    queries = all_queries(BOOK.select(["months"], ["compare-position"]), ["paper"], lists=20, length=10, seed=0)
    for number in range(20):
        places = sample_list("paper", number, items=12, length=10, seed=0)
        expected = task.histogram(torch.tensor(places)).tolist()
        assert [query.truth for query in queries if query.number == number] == expected


def test_truth_agrees_with_a_second_reading_of_the_text():
    queries = all_queries(BOOK, ["uniform", "paper"], lists=5, length=10, seed=1)
    assert len(queries) == 5 * 2 * 3 * (2 * 10 + 2 * 12)
    assert all(count_in(query.text) == query.truth for query in queries)
    assert len({query.truth for query in queries}) >= 6


def test_the_papers_run_has_26400_questions():
    queries = all_queries(BOOK, ["uniform", "paper"], lists=100, length=10, seed=0)
    assert len(queries) == 26_400
    assert {query.truth for query in queries} == set(range(11))


def test_a_longer_run_begins_with_the_shorter_one():
    short, long = (all_queries(BOOK, ["uniform", "paper"], lists=n, length=10, seed=0) for n in (2, 4))
    assert long[: len(short)] == short


def test_categories_are_asked_about_the_same_patterns():
    queries = all_queries(BOOK, ["uniform"], lists=1, length=10, seed=0)
    patterns = {tuple(BOOK.categories[query.category].items.index(item) for item in query.items) for query in queries}
    assert len(patterns) == 1


@pytest.mark.parametrize("sampling", ["uniform", "paper", "published"])
def test_lists_follow_the_label_distribution_of_the_task(sampling):
    """Counts at the first position over 1,000 lists: within four standard errors of the exact distribution."""
    n = 1000
    lists = [sample_list(sampling, number, items=12, length=10, seed=0) for number in range(n)]
    counts = [places.count(places[0]) for places in lists]
    for count, share in enumerate(task.label_distribution(sampling, T=12, L=10).tolist(), start=1):
        if share * n >= 5 or share == 0:  # else the normal approximation does not hold
            assert abs(counts.count(count) / n - share) <= 4 * (share * (1 - share) / n) ** 0.5


def test_the_same_seed_gives_the_same_list_and_touches_no_global_generator():
    state = torch.get_rng_state()
    assert sample_list("paper", 3, items=12, length=10, seed=0) == sample_list("paper", 3, items=12, length=10, seed=0)
    assert sample_list("paper", 3, items=12, length=10, seed=0) != sample_list("paper", 3, items=12, length=10, seed=1)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samplings": ["random"]}, "the sampling must be one of paper, published, uniform, got 'random'"),
        ({"samplings": []}, "at least one; got none"),
        ({"samplings": ["paper", "paper"]}, "name each sampling once"),
        ({"lists": 0}, "at least 1, got 0"),
        ({"length": 1}, "between 2 and 20, got 1"),
        ({"length": 21, "samplings": ["uniform"]}, "between 2 and 20, got 21"),
        ({"length": 13}, "needs 13 items or more in a category; 'letters' has fewer"),
    ],
)
def test_impossible_runs_are_refused(change, message):
    options = {"samplings": ["paper"], "lists": 1, "length": 10, "seed": 0, **change}
    with pytest.raises(ValueError, match=message):
        all_queries(BOOK, options.pop("samplings"), **options)


def test_the_printed_wording_in_the_documentation_is_a_valid_prompt_file(tmp_path):
    """docs/llm.md shows a prompt file with the wording as the paper prints it."""
    text = (ROOT / "docs" / "llm.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "printed.json"
    path.write_text(example, encoding="utf-8")
    names = list(json.loads(example)["prompts"])
    query = all_queries(read_prompts(path).select(["letters"], names), ["paper"], lists=1, length=10, seed=0)[0]
    assert query.text == (
        ", ".join(query.items) + " By comparing all ten items in the previous list to one another, "
        "we find that the first item of the list appears"
    )
