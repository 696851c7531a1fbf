"""Numbers read off the paper's figures; SOURCE.md says which and how precise they are."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

import torch
from jaxtyping import Float, Int
from torch import Tensor


@cache
def table(name: str) -> tuple[dict[str, str], ...]:
    """A file of this folder, row by row."""
    return tuple(csv.DictReader(files(__name__).joinpath(f"{name}.csv").read_text("utf-8").splitlines()))


def attention_matrix(variant: str) -> tuple[tuple[str, ...], Float[Tensor, "query key"]]:
    """Letters and attention (0 to 1) of the published `bos+sftm`, `dot+sftm` or `lin+sftm` matrix."""
    rows = [row for row in table("attention_matrices") if row["model"] == variant]
    if not rows:
        raise ValueError(f"matrices are published for bos+sftm, dot+sftm and lin+sftm, got {variant!r}")
    size = 1 + max(int(row["query_pos"]) for row in rows)
    matrix = torch.empty(size, size)
    labels = [""] * size
    for row in rows:
        matrix[int(row["query_pos"]), int(row["key_pos"])] = float(row["attention_pct"]) / 100
        labels[int(row["query_pos"])] = row["query_token"]
    return tuple(labels), matrix


def bos_sweeps(figure: str = "FF_BOS_appendix") -> dict[tuple[str, str], Int[Tensor, "alpha"]]:
    """Predicted counts along alpha by (mixed, residual) letter: the 4 x 4 sheet, or the one panel of `BOS_figure`."""
    return {
        (row["mixed_token"], row["residual_token"]): torch.tensor([int(digit) for digit in row["predicted"]])
        for row in table("bos_sweeps")
        if row["figure"] == figure
    }


def spectra(variant: str) -> dict[str, dict[str, float]]:
    """Per quantity (s0, s1, s30, drop_at_T, participation) its least, q25, median, q75 and most over trained runs."""
    columns = ("least", "q25", "median", "q75", "most")
    return {
        row["quantity"]: {column: float(row[column]) for column in columns}
        for row in table("spectra")
        if row["model"] == variant
    }


def overlap_mean(series: str) -> float:
    """The mean raw overlap of a series (`same`, `different`, `bos`, `bos_bos_value`) of the Fig. 3 model."""
    rows = [row for row in table("overlap_histogram") if row["series"] == series]
    if len(rows) == 1:
        return float(rows[0]["bin_lo"])
    weights = [float(row["density"]) * (float(row["bin_hi"]) - float(row["bin_lo"])) for row in rows]
    middles = [(float(row["bin_hi"]) + float(row["bin_lo"])) / 2 for row in rows]
    return sum(w * x for w, x in zip(weights, middles, strict=True)) / sum(weights)
