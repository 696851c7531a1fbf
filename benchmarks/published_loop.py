"""The reference for timing: training as the published code does it, one Python call per sequence.

It is a rewrite of github.com/SPOC-group/counting-attention (memory_exp.py), operation by operation, on the CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from counting_interp.models import CountingConfig

BATCH_SIZE = 32
SEQUENCES = 640  # in an epoch; the time per step does not depend on it


class Sequences(Dataset):
    """The sequences of an epoch, as the published code makes them: one Python call for each, kept as numpy rows.

    Counts come from a recursion, tokens from `choice` without replacement, then a shuffle, and labels from a Counter.
    A row becomes a tensor when the loader reads it.
    """

    def __init__(self, config: CountingConfig, seed: int) -> None:
        self.rng = np.random.RandomState(seed)
        self.tokens = np.vstack([self.sequence(config.T, config.L) for _ in range(SEQUENCES)])
        self.labels = np.empty_like(self.tokens)
        for row, tokens in enumerate(self.tokens):
            counts = Counter(tokens)
            self.labels[row] = np.array([counts[token] for token in tokens])
        if config.has_bos:
            prefix = np.full((SEQUENCES, 1), config.T)
            self.tokens = np.concatenate([prefix, self.tokens], 1)
            self.labels = np.concatenate([prefix, self.labels], 1)

    def sequence(self, T: int, L: int) -> np.ndarray:
        ends = np.cumsum(self.parts(L))
        tokens = self.rng.choice(range(T), size=len(ends), replace=False)
        row = np.zeros(L)
        for begin, end, token in zip([0, *ends[:-1]], ends, tokens, strict=True):
            row[begin:end] = token
        self.rng.shuffle(row)
        return row

    def parts(self, left: int) -> list[int]:
        if left <= 1:
            return [1] * left
        size = self.rng.randint(1, left)
        return [size, *self.parts(left - size)]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(self.tokens[row], dtype=torch.long), torch.tensor(self.labels[row], dtype=torch.long)


class PlainModel(nn.Module):
    """The paper's one-layer model in ordinary torch, without hooks."""

    def __init__(self, config: CountingConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.d)
        if config.mixing == "lin":
            self.A = nn.Parameter((torch.rand(config.L, config.L) * 2 - 1) / config.L**0.5)
        else:
            self.Q = nn.Parameter((torch.rand(config.d, config.d) * 2 - 1) / config.d**0.5)
            self.K = nn.Parameter((torch.rand(config.d, config.d) * 2 - 1) / config.d**0.5)
        self.fc1 = nn.Linear(config.d, config.p)
        self.fc2 = nn.Linear(config.p, config.classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        if self.config.mixing == "lin":
            scores: torch.Tensor = self.A
        else:
            scores = (x @ self.Q) @ (x @ self.K).transpose(1, 2) / self.config.d**0.5
        if self.config.softmax:
            scores = scores.softmax(-1)
        return self.fc2(torch.relu(self.fc1(x + scores @ x)))


def published_loop(config: CountingConfig) -> Iterator[float]:
    """Train forever on batches of 32. Each `next` trains an epoch of SEQUENCES and yields its mean loss."""
    model = PlainModel(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    criterion = nn.CrossEntropyLoss()
    for epoch in count():
        loader = DataLoader(Sequences(config, seed=epoch), batch_size=BATCH_SIZE, shuffle=True)
        total = 0.0
        for tokens, labels in loader:
            optimizer.zero_grad()
            logits = model(tokens)[:, -config.L :]
            loss = criterion(logits.reshape(-1, config.classes), labels[:, -config.L :].reshape(-1))
            total += loss.item()
            loss.backward()
            optimizer.step()
        yield total / len(loader)
