"""The plain reference: training as the published code does it, one Python call per sequence and one step at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from models import CountingConfig

SEQUENCES = 640  # in an epoch of the reference, which has no compilation or start-up to spread over more


class Sequences(Dataset):
    """Fresh sequences of an epoch, sampled one after the other: part sizes, distinct tokens, shuffle, labels."""

    def __init__(self, config: CountingConfig, rng: np.random.Generator) -> None:
        self.items = [self.sample(config, rng) for _ in range(SEQUENCES)]

    @staticmethod
    def sample(config: CountingConfig, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        parts, left = [], config.L
        while left > 1:
            parts.append(int(rng.integers(1, left)))
            left -= parts[-1]
        if left == 1:
            parts.append(1)
        tokens = rng.choice(config.T, size=len(parts), replace=False)
        sequence = rng.permutation(np.repeat(tokens, parts)).tolist()
        labels = [sequence.count(token) - config.first_count for token in sequence]
        if config.has_bos:
            sequence = [config.T, *sequence]
        return torch.tensor(sequence), torch.tensor(labels)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.items[index]


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
        logits = self.fc2(torch.relu(self.fc1(x + scores @ x)))
        return logits[:, -self.config.L :]


def published_loop(config: CountingConfig, seed: int = 0, batch_size: int = 32) -> Iterator[int]:
    """Trains forever; each `next` does a short epoch and gives the number of its steps."""
    rng = np.random.default_rng(seed)
    model = PlainModel(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    criterion = nn.CrossEntropyLoss()
    while True:
        loader = DataLoader(Sequences(config, rng), batch_size=batch_size, shuffle=True)
        for tokens, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(tokens).flatten(0, 1), labels.flatten())
            loss.backward()
            optimizer.step()
        yield len(loader)
