"""The evaluation from end to end, and one batch through a model."""

import dataclasses

import numpy as np
import pytest
import torch

from counting_interp.interp.llm.answers import encode_prompt
from counting_interp.interp.llm.evaluation import Cost, Reader, Watcher, evaluate
from counting_interp.interp.llm.model import model_fingerprint
from counting_interp.interp.llm.result import QueryGroup
from counting_interp.util.errors import InterpError
from tests.helpers import assert_close
from tests.interp.llm.tiny import BOOK, TEXTS, TOKENIZERS, Speaker, count_in, gpt2, llama, tokenizer

STYLES = {
    "digits": lambda count: str(count),
    "words": BOOK.word,
    "adverbs": lambda count: BOOK.numbers[count][-1],
    "spaced digits": lambda count: f" {count}",
    "spaced words": lambda count: f" {BOOK.word(count)}",
}
TENS = dataclasses.replace(BOOK, categories={"letters": BOOK.categories["letters"]})


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_an_oracle_scores_100_percent_in_every_cell(kind):
    tok = tokenizer(kind)
    result = evaluate(Speaker(tok, lambda prompt: str(count_in(prompt))), tok, lists=1, batch_size=50)
    for measure in ("scored", "generated"):
        assert len(list(result.cells())) == 24
        assert all(result.accuracy(cell, measure).value == 1.0 for cell in result.cells())
        counts = result.confusion(measure=measure).counts
        assert np.array_equal(counts[:, :11], np.diag(np.diag(counts)))
        assert counts[:, 11].sum() == 0


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("style", list(STYLES))
def test_every_way_of_saying_every_count_is_understood(kind, style):
    """The counts 0 to 10, each said in this style, behind lists that hold an item that often."""
    tok = tokenizer(kind)
    model = Speaker(tok, lambda prompt: STYLES[style](count_in(prompt)))
    book = TENS.select(prompts=["compare-semantic"])
    result = evaluate(model, tok, book=book, samplings=["paper"], lists=25, batch_size=300)
    assert {outcome.query.truth for outcome in result.outcomes} == set(range(11))
    assert result.accuracy().value == 1.0
    assert result.accuracy(measure="generated").value == 1.0


@pytest.mark.parametrize("said", ["3", "three", " three times", "thrice"])
def test_a_model_that_always_says_three_gives_one_column(said):
    tok = tokenizer("pieces")
    result = evaluate(Speaker(tok, lambda prompt: said), tok, lists=1, batch_size=100)
    for measure in result.measures:
        for cell in result.cells():
            counts = result.confusion(cell, measure).counts
            assert np.array_equal(counts.sum(1), counts[:, 3])
        truths = [outcome.query.truth for outcome in result.outcomes]
        assert result.accuracy(measure=measure).value == truths.count(3) / len(truths)


def test_a_model_that_says_no_number_is_wrong_everywhere_by_what_it_writes():
    tok = tokenizer("pieces")
    result = evaluate(Speaker(tok, lambda prompt: "in the list"), tok, book=TENS, lists=1, batch_size=100)
    counts = result.confusion(measure="generated").counts
    assert counts[:, :11].sum() == 0
    assert counts[:, 11].sum() == len(result.outcomes)
    assert result.accuracy(measure="generated").value == 0.0
    assert max(sum(outcome.probabilities) for outcome in result.outcomes) < 1e-6


def test_a_number_that_no_list_can_give_is_other():
    tok = tokenizer("letters")
    result = evaluate(Speaker(tok, lambda prompt: "12 times"), tok, book=TENS, lists=1, batch_size=100)
    assert {outcome.generated for outcome in result.outcomes} == {12}
    assert result.confusion(measure="generated").counts[:, 11].sum() == len(result.outcomes)
    assert max(outcome.probabilities[1] for outcome in result.outcomes) < 1e-6


@pytest.mark.parametrize("kind", ["digits", "pieces"])
def test_batching_does_not_change_answers(kind):
    tok = tokenizer(kind)
    model = llama(len(tok)).double()
    book = BOOK.select(["letters", "months"], ["summarize-semantic"])  # of quite unequal lengths
    alone, some, all_together = (
        evaluate(model, tok, book=book, samplings=["paper"], lists=1, batch_size=size) for size in (1, 5, 1000)
    )
    assert len({outcome.scored for outcome in alone.outcomes}) > 1
    for one, other in ((alone, some), (alone, all_together)):
        assert [outcome.scored for outcome in one.outcomes] == [outcome.scored for outcome in other.outcomes]
        assert [outcome.text for outcome in one.outcomes] == [outcome.text for outcome in other.outcomes]
        shares = [torch.tensor([outcome.probabilities for outcome in result.outcomes]) for result in (one, other)]
        assert (shares[0] - shares[1]).abs().max() < 1e-6


def test_probabilities_are_those_of_the_model():
    """For words that are single tokens, the reading is the softmax of the logits, added over the ways of writing."""
    tok = tokenizer("words")
    model = llama(len(tok)).double()
    result = evaluate(model, tok, book=TENS.select(prompts=["compare-position"]), samplings=["paper"], lists=1)
    outcome = result.outcomes[4]
    with torch.inference_mode():
        shares = model(torch.tensor([tok(outcome.query.text)["input_ids"]])).logits[0, -1].softmax(-1)
    for count, forms in enumerate(BOOK.numbers[:11]):
        expected = sum(float(shares[tok.convert_tokens_to_ids(form)]) for form in forms)
        assert outcome.probabilities[count] == pytest.approx(expected, rel=1e-5)


def test_the_cost_is_shown_at_the_start_and_progress_after_each_batch():
    tok = tokenizer("words")
    costs, progress = [], []
    watcher = Watcher(costs.append, lambda done, total: progress.append((done, total)))
    result = evaluate(llama(len(tok)), tok, book=TENS, lists=1, batch_size=16, generate=False, watcher=watcher)
    texts = {outcome.query.text for outcome in result.outcomes}
    assert costs == [Cost(len(texts), sum(len(tok(text)["input_ids"]) for text in texts), 0, 16)]
    assert progress[0] == (16, len(texts))
    assert progress[-1] == (len(texts), len(texts))


def test_memory_that_runs_out_halves_the_batch(monkeypatch):
    from counting_interp.interp.llm.evaluation import Reader

    tok = tokenizer("words")
    sizes = []
    real = Reader.next_token

    def small_memory(self, prompts):
        sizes.append(len(prompts))
        if len(prompts) > 5:
            raise torch.OutOfMemoryError("too large")
        return real(self, prompts)

    monkeypatch.setattr(Reader, "next_token", small_memory)
    result = evaluate(llama(len(tok)), tok, book=TENS, samplings=["paper"], lists=1, generate=False)
    assert sizes[:3] == [16, 8, 4]
    assert result.accuracy().questions == 44
    with pytest.raises(torch.OutOfMemoryError):
        evaluate(llama(len(tok)), tok, book=TENS, samplings=["paper"], lists=1, generate=False, batch_size=8)


def test_without_generation_there_is_one_measure():
    tok = tokenizer("words")
    result = evaluate(llama(len(tok)), tok, book=TENS, samplings=["uniform"], lists=1, generate=False)
    assert result.measures == ("scored",)
    with pytest.raises(ValueError, match="measure must be one of scored, got 'generated'"):
        result.accuracy(measure="generated")
    with pytest.raises(ValueError, match="no question belongs to"):
        result.accuracy(QueryGroup(category="months"))


TOK = tokenizer("pieces")
PROMPTS = [encode_prompt(TOK, text) for text in (*TEXTS[:3], "a", "one two", *TEXTS[100:103])]


@pytest.mark.parametrize("build", [llama, gpt2])
def test_next_token_probabilities(build):
    reader = Reader(build(len(TOK)).double(), pad=1)
    together = reader.next_token(PROMPTS)
    alone = torch.cat([reader.next_token([prompt]) for prompt in PROMPTS])
    assert_close(together, alone, 1e-6)
    assert_close(together.sum(1), torch.ones(len(PROMPTS)), 1e-6)


@pytest.mark.parametrize("build", [llama, gpt2])
def test_generated_tokens(build):
    reader = Reader(build(len(TOK)).double(), pad=1)
    alone = [reader.continue_greedily([prompt], 6)[0] for prompt in PROMPTS]
    together = reader.continue_greedily(PROMPTS, 6)
    ended = [row[: row.index(1)] if 1 in row else row for row in together]
    assert ended == [row[: row.index(1)] if 1 in row else row for row in alone]
    assert len(set(map(tuple, ended))) > 1


@pytest.mark.parametrize("build", [llama, gpt2])
def test_the_first_generated_token_is_the_most_probable_next_one(build):
    reader = Reader(build(len(TOK)).double(), pad=1)
    assert [row[0] for row in reader.continue_greedily(PROMPTS, 1)] == reader.next_token(PROMPTS).argmax(1).tolist()


def test_the_padding_could_have_mattered():
    """The same batch without mask and positions gives other answers: the tests above can fail."""
    model = gpt2(len(TOK)).double()
    reader = Reader(model, pad=1)
    with torch.inference_mode():
        careless = model(input_ids=reader.inputs(PROMPTS)["input_ids"]).logits[:, -1].softmax(-1)
    assert (careless - reader.next_token(PROMPTS)).abs().max() > 1e-3


def test_a_model_whose_weights_are_kept_elsewhere():
    from accelerate import cpu_offload

    expected = Reader(llama(len(TOK)), pad=1).next_token(PROMPTS)
    model = cpu_offload(llama(len(TOK)), execution_device=torch.device("cpu"))
    assert next(model.parameters()).is_meta
    assert_close(Reader(model, pad=1).next_token(PROMPTS), expected, 1e-6)
    assert model_fingerprint(model) != model_fingerprint(llama(len(TOK)))


def test_shapes_of_a_padded_batch():
    inputs = Reader(llama(len(TOK)), pad=7).inputs([[5, 6], [4]])
    assert inputs["input_ids"].tolist() == [[5, 6], [7, 4]]
    assert inputs["attention_mask"].tolist() == [[1, 1], [0, 1]]
    assert inputs["position_ids"].tolist() == [[0, 1], [0, 0]]


def test_a_model_is_put_in_eval_mode():
    model = llama(len(TOK)).train()
    Reader(model, pad=1)
    assert not model.training


def test_logits_that_are_not_numbers_are_named():
    model = llama(len(TOK))
    torch.nn.init.constant_(model.lm_head.weight, float("nan"))
    with pytest.raises(InterpError, match=r"not numbers in torch\.float32; try --dtype bfloat16"):
        Reader(model, pad=1).next_token(PROMPTS)
