"""The evaluation: lists, questions, answers, result; and one batch through a model.

Prompts of unequal length are padded on the left, so that the last token of every prompt is in the last column. The mask
hides the padding and position ids count from the first real token: a prompt means the same whatever it is batched with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.interp.llm.answers import (
    NEW_TOKENS,
    Answer,
    Node,
    Store,
    encode_prompt,
    goes_on,
    number_tree,
    parse_count,
    read_counts,
)
from counting_interp.interp.llm.model import model_fingerprint, tokenizer_fingerprint
from counting_interp.interp.llm.prompts import PromptBook, Query, all_queries, read_prompts
from counting_interp.interp.llm.result import AnsweredQuery, Evaluation
from counting_interp.util.errors import InterpError

# --- one batch --------------------------------------------------------------------------------------------------------


class Reader:
    """A model and what its forward pass accepts.

    Args:
        model: a causal language model of `transformers`; put in eval mode.
        pad: any token id; what stands in the padding is never seen.
    """

    def __init__(self, model: Any, pad: int) -> None:
        self.model = model.eval()
        self.pad = pad
        home = model.get_input_embeddings().weight.device
        self.device = torch.device("cpu") if home.type == "meta" else home  # meta: weights are moved in when needed
        self._accepts = set(signature(model.forward).parameters)

    def inputs(self, prompts: Sequence[Sequence[int]]) -> dict[str, Int[Tensor, "batch pos"]]:
        """Token ids, mask and positions."""
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.pad)
        mask = torch.zeros(len(prompts), width, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        tensors = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        return {name: tensor.to(self.device) for name, tensor in tensors.items()}

    @torch.inference_mode()
    def next_token(self, prompts: Sequence[Sequence[int]]) -> Float[Tensor, "batch vocab"]:
        """The probabilities of the next token, in float32 on the CPU."""
        tensors = self.inputs(prompts)
        inputs: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if name in self._accepts}
        if "logits_to_keep" in self._accepts:  # else all positions would be projected on the vocabulary
            inputs["logits_to_keep"] = 1
        if "use_cache" in self._accepts:
            inputs["use_cache"] = False
        logits = self.model(**inputs).logits[:, -1].float()
        shares = logits.softmax(-1).cpu()
        if shares.isnan().any():  # from a NaN, or from an infinity, among the logits
            raise InterpError(
                f"the model's logits are not numbers in {self.model.dtype}; try --dtype bfloat16 or --dtype float32"
            )
        return shares

    @torch.inference_mode()
    def continue_greedily(self, prompts: Sequence[Sequence[int]], tokens: int) -> list[list[int]]:
        """The `tokens` most probable next tokens one after the other, as at temperature zero."""
        inputs = self.inputs(prompts)
        del inputs["position_ids"]  # `generate` derives the same ones from the mask
        output = self.model.generate(
            **inputs,
            do_sample=False,
            num_beams=1,
            max_new_tokens=tokens,
            pad_token_id=self.pad,
            temperature=None,
            top_p=None,
            top_k=None,
        )
        return output[:, inputs["input_ids"].shape[1] :].tolist()


# --- the evaluation ---------------------------------------------------------------------------------------------------

SAMPLINGS = ("uniform", "paper")
SAMPLE = 500  # prompts that are tokenized to tell the cost


@dataclass(frozen=True)
class Cost:
    """What a run has before it."""

    prompts: int
    tokens: int
    answered: int
    batch_size: int


@dataclass(frozen=True)
class Watcher:
    """Called during a run: with the cost, at the start; with the prompts answered, after each batch."""

    cost: Callable[[Cost], None] = lambda cost: None
    answered: Callable[[int, int], None] = lambda done, total: None


def evaluate(
    model: Any,
    tokenizer: Any,
    *,
    name: str = "model",
    book: PromptBook | None = None,
    samplings: Sequence[str] = SAMPLINGS,
    lists: int = 100,
    length: int = 10,
    seed: int = 0,
    batch_size: int | None = None,
    generate: bool = True,
    folder: str | Path | None = None,
    watcher: Watcher | None = None,
) -> Evaluation:
    """Ask a causal language model to count, as the paper's appendix does.

    Args:
        model: a causal language model of `transformers`, on its device.
        tokenizer: its tokenizer.
        name: what tables and figures call the model.
        book: prompts and categories; the bundled ones by default. `read_prompts(path).select(...)` gives others.
        samplings: how lists are drawn: `uniform`, `paper` (or `published`).
        lists: how many lists per category and sampling.
        length: of the lists.
        seed: of the lists.
        batch_size: prompts at a time; by default 64 on an accelerator and 16 on a CPU, halved when memory runs out.
        generate: also let the model write, and read the count from what it writes.
        folder: where answers are kept, so that a run can be resumed; None keeps them in memory.
        watcher: what to call on the way.
    """
    book = book or read_prompts()
    watcher = watcher or Watcher()
    queries = all_queries(book, samplings, lists=lists, length=length, seed=seed)
    panel = _Panel(model, tokenizer, book, length, generate)
    with Store(None if folder is None else Path(folder), panel.identity) as store:
        _answer_all(panel, store, queries, batch_size, watcher)
        outcomes = tuple(_outcome(query, store.answers[query.text], book) for query in queries)
    settings = {"lists": lists, "length": length, "seed": seed, "samplings": list(samplings), **panel.identity}
    return Evaluation(name, length, outcomes, settings)


def _outcome(query: Query, answer: Answer, book: PromptBook) -> AnsweredQuery:
    written = None if answer.generated is None else parse_count(answer.generated, book.numbers)
    return AnsweredQuery(query, answer.probabilities, answer.count, answer.generated, written)


class _Panel:
    """The model, ready to be asked: how it writes numbers behind each prompt, and both ways of reading its answer."""

    def __init__(self, model: Any, tokenizer: Any, book: PromptBook, length: int, generate: bool) -> None:
        vocabulary = model.get_input_embeddings().weight.shape[0]
        pads = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        self.reader = Reader(model, next(pad for pad in pads if pad is not None and 0 <= pad < vocabulary))
        self.tokenizer = tokenizer
        self.numbers = book.numbers[: length + 1]
        self.generate = generate
        self.trees: dict[str, Node] = {}
        self.goes_on: torch.Tensor | None = None
        self.identity = {
            "weights": model_fingerprint(model),
            "tokenizer": tokenizer_fingerprint(tokenizer),
            "dtype": str(model.dtype).removeprefix("torch."),
            "numbers": [list(forms) for forms in book.numbers],
        }

    def prepare(self, queries: Sequence[Query]) -> None:
        """One tree per prompt type: which tokens say a number depends only on how the prompt ends."""
        examples = {query.prompt: query.text for query in queries}
        self.trees = {name: number_tree(self.tokenizer, text, self.numbers) for name, text in examples.items()}
        if any(tree.ambiguous for tree in self.trees.values()):
            self.goes_on = goes_on(self.tokenizer, encode_prompt(self.tokenizer, self.numbers[1][0])[-1])

    def answer(self, queries: Sequence[Query]) -> list[tuple[str, Answer]]:
        prompts = [encode_prompt(self.tokenizer, query.text) for query in queries]
        trees = [self.trees[query.prompt] for query in queries]
        shares = read_counts(self.reader.next_token, prompts, trees, len(self.numbers), self.goes_on)
        texts: list[str | None] = [None] * len(queries)
        if self.generate:
            written = self.reader.continue_greedily(prompts, NEW_TOKENS)
            texts = list(self.tokenizer.batch_decode(written, skip_special_tokens=True))
        answers = map(Answer, shares, texts)
        return [(query.text, answer) for query, answer in zip(queries, answers, strict=True)]

    def tokens(self, queries: Sequence[Query]) -> int:
        """How many tokens these prompts have, estimated from some of them."""
        some = queries[:: len(queries) // SAMPLE + 1]
        total = sum(len(encode_prompt(self.tokenizer, query.text)) for query in some)
        return round(total * len(queries) / max(1, len(some)))


def _answer_all(
    panel: _Panel, store: Store, queries: Sequence[Query], batch_size: int | None, watcher: Watcher
) -> None:
    unique = list({query.text: query for query in queries}.values())
    pending = [query for query in unique if not _known(store, query, len(panel.numbers), panel.generate)]
    size = batch_size or (16 if panel.reader.device.type == "cpu" else 64)
    if size < 1:
        raise ValueError(f"the batch size must be at least 1, got {size}")
    total, done = len(unique), len(unique) - len(pending)
    watcher.cost(Cost(total, panel.tokens(pending), done, size))
    panel.prepare(unique)
    for answers in _batches(panel, pending, size, halve=batch_size is None):
        store.add(answers)
        done += len(answers)
        watcher.answered(done, total)


def _known(store: Store, query: Query, counts: int, generate: bool) -> bool:
    """Whether there is an answer of as many counts as are asked for, and a text if one is wanted."""
    answer = store.answers.get(query.text)
    return answer is not None and len(answer.probabilities) == counts and not (generate and answer.generated is None)


def _batches(panel: _Panel, pending: Sequence[Query], size: int, *, halve: bool) -> Iterator[list[tuple[str, Answer]]]:
    """Answers batch by batch; half as many at a time when memory runs out."""
    start = 0
    while start < len(pending):
        try:
            answers = panel.answer(pending[start : start + size])
        except torch.OutOfMemoryError:
            if not halve or size == 1:
                raise
            torch.cuda.empty_cache()
            size //= 2
            continue
        yield answers
        start += size
