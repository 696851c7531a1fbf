"""The lists that a model is asked about: places of a category, drawn by the samplers of the toy task.

`uniform` draws each place independently with replacement; `paper` is the sampler of the toy models, under which every
count is equally likely at a position. List number i depends on the seed, the sampler and i alone: a longer run begins
with the lists of a shorter one, and categories of equal size are asked about the same patterns, so that a difference
between two categories is not a difference between their lists.
"""

from __future__ import annotations

from hashlib import sha256

import torch

from counting_interp.models import task


def sample_list(sampling: str, index: int, *, items: int, length: int, seed: int) -> list[int]:
    """List number `index`: `length` places of a category of `items` items."""
    name = f"{seed}/{sampling}/{items}/{length}/{index}"
    generator = torch.Generator().manual_seed(int.from_bytes(sha256(name.encode()).digest()[:7], "big"))
    if sampling == "uniform":  # with replacement: unlike the toy task, a list may be longer than its category
        return torch.randint(items, (length,), generator=generator).tolist()
    return task.sample(sampling, 1, T=items, L=length, generator=generator)[0].tolist()
