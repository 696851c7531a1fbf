"""The numbers of the paper's figures, next to the same numbers measured on this model.

Two training runs share no weights, so most rows compare qualitatively: each states a criterion that both should meet.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from counting_interp import data
from counting_interp.models import CountingTransformer, task
from counting_interp.models.config import CountingConfig
from counting_interp.probes.attention import Attention, attention
from counting_interp.probes.catalogue import check
from counting_interp.probes.designs import REFERENCE, parse_sequence
from counting_interp.probes.isolation import BosSweep, bos_sweep, find_boundaries
from counting_interp.probes.overlap import Overlap, overlap
from counting_interp.probes.result import Result, Scalar, show
from counting_interp.probes.spectrum import Spectrum, spectrum

SHEET = (1, 2, 3, 4)  # the tokens of the 4 x 4 sheet: B, C, D, E
LIN_SFTM_TEXT = {"on_diagonal": 0.16, "other": 0.09}  # "an off-diagonal of ~0.09 and a diagonal of ~0.16"


@dataclass(frozen=True)
class Comparison:
    """One quantity, published and measured.

    Attributes:
        figure: the paper's figure.
        criterion: when the two agree.
        agrees: whether the criterion is met.
    """

    figure: str
    quantity: str
    published: float
    ours: float | None
    criterion: str
    agrees: bool


@dataclass(frozen=True, eq=False)
class Published(Result):
    """All comparisons that are defined for a model."""

    probe: ClassVar[str] = "published"
    comparisons: tuple[Comparison, ...]

    @property
    def summary(self) -> dict[str, Scalar]:
        agree = sum(row.agrees for row in self.comparisons)
        return {
            "agree": f"{agree} of {len(self.comparisons)}",
            **{row.quantity: row.ours for row in self.comparisons},
        }

    def table(self) -> list[tuple[str, ...]]:
        """A row for each comparison, with its criterion and whether it is met."""
        lines = [("quantity", "paper", "here", "agree?", "what has to hold")]
        for row in self.comparisons:
            numbers = (show(row.published), show(row.ours), show(row.agrees))
            lines.append((row.quantity.replace("_", " "), *numbers, f"{row.criterion} ({row.figure})"))
        return [*lines, ("agree", str(self.summary["agree"]), "", "", "")]

    def rows(self) -> list[dict[str, Scalar]]:
        return [dict(vars(row)) for row in self.comparisons]


def published(model: CountingTransformer) -> Published:
    """Run the probes behind the paper's figures and compare with the published numbers."""
    config = model.config
    check("published", config)
    rows: list[Comparison] = []
    if config.softmax:
        rows += compare_attention(attention(model, parse_sequence(REFERENCE, config)), config)
    if config.name == "bos+sftm":
        rows += compare_overlap(overlap(model))
        rows += compare_bos_sweep(bos_sweep(model, tokens=SHEET), config.L)
    if min(config.d, config.p) >= 32:
        rows += compare_spectrum(spectrum(model), config.name)
    return Published(tuple(rows))


def compare_bos_sweep(result: BosSweep, L: int) -> tuple[Comparison, ...]:
    """The 4 x 4 sheet: predictions only rise, reach nine counts, and step at the same alpha for all pairs."""
    figure = "Fig. 3 right, 4 x 4 sheet"
    theirs = torch.stack(list(bos_sweeps().values()))
    steps = find_boundaries(theirs, torch.linspace(0, 1, theirs.shape[1]), L)
    crossed = steps.isfinite().all(0)
    their_shift = float((steps.amax(0) - steps.amin(0))[crossed].max()) * (theirs.shape[1] - 1)
    their_counts = float(min(len(row.unique()) for row in theirs))
    counts = float(min(len(row.unique()) for row in result.predicted[result.defined]))
    rising = float(result.monotone[result.defined].double().mean())
    shifts = result.spread[result.spread.isfinite()]
    shift = float(shifts.max() / (result.alphas[1] - result.alphas[0])) if len(shifts) else None
    everywhere = int(result.boundaries[result.defined].isfinite().all(0).sum())
    near = shift is not None and shift < 1.5 and everywhere >= int(crossed.sum())
    return (
        Comparison(figure, "sweeps_that_never_turn_back", 1.0, rising, "all of them", rising == 1.0),
        Comparison(figure, "counts_reached", their_counts, counts, "at least as many", counts >= their_counts),
        Comparison(
            figure,
            "boundary_shift_in_grid_points",
            float(round(their_shift)),
            shift,
            "at most one, for all steps",
            near,
        ),
    )


def compare_attention(result: Attention, config: CountingConfig) -> tuple[Comparison, ...]:
    """The reference sequence: attention to `$` by count, and to equal against different tokens (lin: the diagonal)."""
    _, theirs = attention_matrix(config.name)
    bos, figure = int(config.has_bos), "Fig. 3 middle" if config.has_bos else "Fig. 4, attention"
    equal = result.equal[bos:, bos:]
    if config.mixing == "lin":  # the printed matrix is of a model with T=64; the text gives the values at T=32
        on, published = torch.eye(config.L, dtype=torch.bool), LIN_SFTM_TEXT
    else:
        on, inner = equal, theirs[bos:, bos:]
        published = {"equal": float(inner[equal].mean()), "other": float(inner[~equal].mean())}
    name = next(iter(published))
    ours = {name: float(result.pattern[bos:, bos:][on].mean()), "other": float(result.pattern[bos:, bos:][~on].mean())}
    same_order = (ours[name] < ours["other"]) == (published[name] < published["other"])
    order = f"{name.replace('_', ' ')} {'below' if published[name] < published['other'] else 'above'} other"
    rows = [
        Comparison(figure, f"attention_{side}", round(published[side], 3), ours[side], order, same_order)
        for side in ours
    ]
    if bos:
        counts = task.histogram(result.tokens[1:])
        shares, their_shares = (
            {k: float(pattern[1:, 0][counts == k].mean()) for k in (1, 3, 5)} for pattern in (result.pattern, theirs)
        )
        falling = their_shares[1] > their_shares[5]
        ordered = list(shares) == sorted(shares, key=lambda k: shares[k], reverse=falling)
        criterion = f"{'falls' if falling else 'rises'} from count 1 over 3 to 5"
        for k, share in shares.items():
            rows.append(Comparison(figure, f"bos_share_at_{k}", round(their_shares[k], 3), share, criterion, ordered))
    return tuple(rows)


def compare_overlap(result: Overlap) -> tuple[Comparison, ...]:
    """Mean raw overlaps, in the order same > different > with `$`."""
    ours = {series: float(result.values(series).mean()) for series in ("same", "different", "bos", "bos_bos")}
    ordered = ours["same"] > ours["different"] > ours["bos"]
    return tuple(
        Comparison(
            "Fig. 3 left",
            f"mean_overlap_{series}",
            round(overlap_mean("bos_bos_value" if series == "bos_bos" else series), 1),
            value,
            "same > different > bos" if series != "bos_bos" else "above bos",
            ordered if series != "bos_bos" else value > ours["bos"],
        )
        for series, value in ours.items()
    )


def compare_spectrum(result: Spectrum, variant: str) -> tuple[Comparison, ...]:
    """The spectrum of W1 against the range over all published runs of this variant."""
    ours = {"s0": float(result.sigma[0]), "participation": result.participation, "drop_at_T": result.drop}
    rows = []
    for quantity, value in ours.items():
        theirs = spectra(variant)[quantity]
        inside = value is not None and theirs["least"] <= value <= theirs["most"]
        criterion = f"within the published runs, {theirs['least']:g} to {theirs['most']:g}"
        if value is not None:
            rows.append(Comparison("App. singular values", quantity, theirs["median"], value, criterion, inside))
    return tuple(rows)


@cache
def _table(name: str) -> tuple[dict[str, str], ...]:
    return tuple(csv.DictReader(data.published(name).read_text("utf-8").splitlines()))


def attention_matrix(variant: str) -> tuple[tuple[str, ...], Float[Tensor, "query key"]]:
    """Letters and attention (0 to 1) of the published matrix of `bos+sftm`, `dot+sftm` or `lin+sftm`."""
    rows = [row for row in _table("attention_matrices") if row["model"] == variant]
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
        for row in _table("bos_sweeps")
        if row["figure"] == figure
    }


def spectra(variant: str) -> dict[str, dict[str, float]]:
    """For each quantity (s0, s1, s30, drop_at_T, participation) its least, q25, median, q75 and most over runs."""
    columns = ("least", "q25", "median", "q75", "most")
    return {
        row["quantity"]: {column: float(row[column]) for column in columns}
        for row in _table("spectra")
        if row["model"] == variant
    }


def overlap_mean(series: str) -> float:
    """The mean raw overlap of a series (`same`, `different`, `bos`, `bos_bos_value`) of the Fig. 3 model."""
    rows = [row for row in _table("overlap_histogram") if row["series"] == series]
    if len(rows) == 1:
        return float(rows[0]["bin_lo"])
    weights = [float(row["density"]) * (float(row["bin_hi"]) - float(row["bin_lo"])) for row in rows]
    middles = [(float(row["bin_hi"]) + float(row["bin_lo"])) / 2 for row in rows]
    return sum(w * x for w, x in zip(weights, middles, strict=True)) / sum(weights)
