"""The live model as a notebook widget: the JavaScript of the report, in Jupyter, VS Code, Colab and marimo.

Python can read and set the sequence that is typed in the widget. Answers in Python come from the hooked model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anywidget
import torch
import traitlets
from torch import Tensor

from counting_interp.interp.pages import asset, look_script, variables
from counting_interp.interp.pages.live import live_script, model_payload
from counting_interp.models import CountingTransformer
from counting_interp.models.task import LETTERS, REFERENCE, letters, parse_sequence


def widget_style() -> str:
    """The CSS of the panel, nested in the class of the widget, so that it does not affect the notebook."""
    box = "display:block;padding:2px;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    rules = f"*{{box-sizing:border-box}}p{{margin:0.3rem 0}}{asset('live.css')}"
    dark = f"&[data-theme='dark']{{color-scheme:dark;{variables(True)}}}"
    return f".counting-live{{{box}color-scheme:light;{variables(False)}{dark}{rules}}}"


class LiveWidget(anywidget.AnyWidget):
    """A counting transformer that runs in the notebook's page.

    Attributes:
        sequence: its input, as `BBCBBBDEEE`, or as numbers if there are more tokens than letters. Set it with
            text or a list of tokens; observe it with `widget.observe(f, "sequence")`.
        position: the chosen position, from 0.
    """

    _esm = "\n".join((look_script(), live_script(), asset("widget.js")))
    _css = widget_style()
    payload = traitlets.Dict().tag(sync=True)
    sequence = traitlets.Any().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)

    def __init__(self, model: CountingTransformer, sequence: str | Sequence[int] | None = None) -> None:
        payload = model_payload(model)
        self.model = model
        T, L = model.config.T, model.config.L
        readable = T >= 5 and len(REFERENCE) == L
        example = parse_sequence(REFERENCE, model.config) if readable else torch.arange(L) // 2 % T
        super().__init__(payload=payload, sequence=example if sequence is None else sequence)

    @traitlets.validate("sequence")
    def _check(self, proposal: Any) -> str:
        given, config = proposal["value"], self.model.config
        text = given if isinstance(given, str) else " ".join(str(int(token)) for token in given)
        tokens = parse_sequence(text, config)
        if len(LETTERS) < config.T:
            return " ".join(map(str, tokens.tolist()))
        return "".join(letters(tokens, config.T))

    @traitlets.validate("position")
    def _check_position(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] < self.model.config.L:
            raise ValueError(f"positions are 0 to {self.model.config.L - 1}, got {proposal['value']}")
        return int(proposal["value"])

    @property
    def tokens(self) -> Tensor:
        """The sequence as numbers [pos]."""
        return parse_sequence(self.sequence, self.model.config)

    @property
    def predictions(self) -> Tensor:
        """The count that the model answers at each position [pos]."""
        return self.model.predict(self.tokens)

    @property
    def attention(self) -> Tensor:
        """The attention patterns [block, head, query, key]. If there is a `$`, it is position 0."""
        with torch.no_grad():
            _, cache = self.model.run_with_cache(self.tokens[None])
        return torch.stack([cache["pattern", block][0] for block in range(self.model.config.n_layers)])
