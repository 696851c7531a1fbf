"""From a file to what a report says about it: the model, its verdict, its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from interp.classify import classify
from interp.figures.introspection import Settings, draw_all
from interp.report.page import Subject
from models import CountingTransformer


def subject_of(path: Path, *, seed: int = 0, device: torch.device | str = "cpu", **assume: Any) -> Subject:
    """Load, classify and draw one checkpoint. A file that cannot be read raises CheckpointError."""
    model = CountingTransformer.load(path, **assume).to(device)
    drawings = list(draw_all(model, settings=Settings(seed=seed)))
    return Subject(path.name, model, classify(model, seed=seed), drawings)
