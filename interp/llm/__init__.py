"""Counting with large language models: the evaluation of the paper's appendix, for any causal language model.

In the order of reading: `prompts` (what is asked, with true answers), `model` (loading one), `answers` (the count in a
next-token distribution or in a text), `store` (answers on disk), `evaluation`, `result` (accuracies, slopes, tables).
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
