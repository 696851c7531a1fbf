"""One batch through a causal language model: prompts of unequal length, padded on the left.

Padding on the left puts the last token of every prompt in the last column. The mask hides the padding and the
position ids count from the first real token, so that a prompt means the same whatever it is batched with.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp.util.errors import InterpError


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
