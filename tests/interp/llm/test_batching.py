"""Neither the neighbours in a batch nor the padding they cause change what a model says."""

import pytest
import torch

from counting_interp.interp.llm.batching import Reader
from counting_interp.interp.llm.fingerprint import model_fingerprint
from counting_interp.interp.llm.numbers import encode_prompt
from counting_interp.util.errors import InterpError
from tests.helpers import assert_close
from tests.interp.llm.tiny import TEXTS, gpt2, llama, tokenizer

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
