"""Counting with large language models: the evaluation of the paper's appendix, for any causal language model.

In the order of reading: `prompts.json` and `book` (what is asked), `lists`, `queries` (every question with its true
answer), `numbers` and `scoring` (the answer in the next-token distribution), `generated` (the answer in what the model
writes), `batching` (the model itself), `store` (answers on disk), `evaluation`, `result`, `tables`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counting_interp.interp.llm.evaluation import evaluate
    from counting_interp.interp.llm.prompts import read_prompts
    from counting_interp.interp.llm.result import Evaluation, QueryGroup

_HOMES = {
    "QueryGroup": "counting_interp.interp.llm.result",
    "Evaluation": "counting_interp.interp.llm.result",
    "evaluate": "counting_interp.interp.llm.evaluation",
    "read_prompts": "counting_interp.interp.llm.prompts",
}

__all__ = ["Evaluation", "QueryGroup", "evaluate", "read_prompts"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'counting_interp.interp.llm' has no attribute {name!r}")
