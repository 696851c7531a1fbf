"""The tables of docs/map.md and docs/reproduction.md, from the bundled runs.

    python -m scripts.map_facts                    # print it
    python -m scripts.map_facts --publish docs     # and write it into docs/map.md and docs/reproduction.md

docs/map.md has the mechanisms with intervals, docs/reproduction.md compares with the published figures. The sentences
on these pages are written by hand. A test checks that their tables are those of the runs.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from counting_interp.data import all_runs
from counting_interp.interp.sweep.compare import Key, Published, compare_cells, comparison_lines, read_reference
from counting_interp.interp.sweep.grid import GRID
from counting_interp.interp.sweep.statistics import SOLVED, by_cell, mechanism_of
from counting_interp.interp.sweep.table import RunRow, read_runs
from counting_interp.models.config import VARIANTS
from counting_interp.probes.accuracy import proportion_interval
from counting_interp.util.text import percent_range, two_places
from scripts import figure_facts

SECTION = re.compile(r"<!-- facts -->\n.*<!-- end of facts -->", re.S)
PAGES = ("map.md", "reproduction.md")
WORST = 8  # cells outside their tolerance that the page shows
COMPARING = ("dot", "bos", "bos+sftm")  # variants in which attention alone can carry the count
RANGES = {">= T": True, "< T": False}  # of d
ANOTHER_SEED = "another seed"
HEAD = ("of the runs", "are", "number", "share", "95 % interval")
LABELS, SHARES = ("RC", "gated", "IC", "mixed"), ("RC", "IC", "gated")
SHARES_HEAD = ("model", "d", "runs", "solved", *LABELS, *(f"share of {name}" for name in SHARES))
OTHER_HEAD = (
    "setting",
    "solved",
    "solved in Fig. 1's first runs",
    "median change of accuracy (points)",
    "RC, d >= T",
    "gated, d >= T",
    "gated, d < T",
    "IC, dot+sftm",
    "same mechanism as in Fig. 1's first runs",
)


@dataclass(frozen=True)
class Share:
    """`found` of `among` runs have a property."""

    of: str
    are: str
    found: int
    among: int

    def cells(self) -> tuple[str, ...]:
        if not self.among:
            return (self.of, self.are, "0 of 0", "-", "-")
        low, high = proportion_interval(self.found, self.among)
        share = f"{100 * self.found / self.among:.0f} %"
        return (self.of, self.are, f"{self.found} of {self.among}", share, percent_range(low, high))

    def short(self) -> str:
        """Text such as `12 of 13 (64 to 100 %)`."""
        _, _, number, _, interval = self.cells()
        return f"{number} ({interval})" if self.among else "-"


def facts(runs: Sequence[RunRow]) -> Iterator[Share]:
    """All facts, in the order of the sentences on the page."""
    classified = [run for run in runs if mechanism_of(run) is not None]
    solved = [run for run in classified if mechanism_of(run) != "unsolved"]
    usual = [run for run in solved if not _beyond(run)]
    comparing = [run for run in usual if run.cell.model in COMPARING]
    for words, wide in RANGES.items():
        here = [run for run in comparing if (run.cell.d >= run.cell.T) == wide]
        for mechanism in LABELS:
            yield _share(f"solved {', '.join(COMPARING)}, d {words}", mechanism, here)
    for words, large in {"p < T": False, "p >= T": True}.items():
        here = [run for run in comparing if run.cell.d >= run.cell.T and (run.cell.p >= run.cell.T) == large]
        yield _share(f"solved {', '.join(COMPARING)}, d >= T, {words}", "IC", here)
    for model in ("dot+sftm", "bos+sftm", "lin", "lin+sftm"):
        here = [run for run in usual if run.cell.model == model]
        yield _share(f"solved {model}", "IC", here)
    yield from _second_layer(classified)
    accurate = [run for run in runs if not _beyond(run) and "proof_proof" in run.measured and run.final >= SOLVED]
    for proof in ("refuted", "certified", "undecided"):
        found = sum(run.measured["proof_proof"] == proof for run in accurate)
        yield Share(f"runs with at least {SOLVED:g} % of positions right", proof, found, len(accurate))


def shares_table(runs: Iterable[RunRow]) -> Iterator[tuple[str, ...]]:
    """A row for each model, at d >= T and below: number of runs by label, and mean shares over the solved runs."""
    judged = [run for run in runs if mechanism_of(run) is not None and not _beyond(run)]
    for model in VARIANTS:
        for words, wide in RANGES.items():
            here = [run for run in judged if run.cell.model == model and (run.cell.d >= run.cell.T) == wide]
            solved = [run for run in here if mechanism_of(run) != "unsolved"]
            labels = Counter(mechanism_of(run) for run in solved)
            counts = [len(here), len(solved), *(labels[name] for name in LABELS)]
            yield (model, words, *map(str, counts), *(_mean_share(solved, name) for name in SHARES))


def _mean_share(runs: Iterable[RunRow], name: str) -> str:
    column = f"verdict_{name.lower()}"
    values = [run.measured[column] for run in runs if column in run.measured]
    return two_places(fmean(values)) if values else "-"


def gating(runs: Iterable[RunRow]) -> Iterator[tuple[str, ...]]:
    """A row for each d: the mean gated share of the solved runs of Fig. 1 and their number, by model."""
    solved = [run for run in runs if mechanism_of(run) not in (None, "unsolved") and not _beyond(run)]
    for d in sorted({run.cell.d for run in solved}):
        groups = [[run for run in solved if (run.cell.model, run.cell.d) == (model, d)] for model in COMPARING]
        if any(groups):
            yield (str(d), *(f"{_mean_share(here, 'gated')} ({len(here)})" if here else "-" for here in groups))


def _second_layer(runs: Sequence[RunRow]) -> Iterator[Share]:
    two = [run for run in runs if _beyond(run) == ["2 layers"] and mechanism_of(run) != "unsolved"]
    if two:
        for mechanism in LABELS:
            yield _share("solved runs of two layers", mechanism, two)


def other_settings(runs: Iterable[RunRow]) -> Iterator[tuple[str, ...]]:
    """A row for each setting other than Fig. 1's: its runs, compared with the first ones of Fig. 1 in the same cells.

    Fig. 1's second runs show how much another seed changes by itself. The last column is only over COMPARING, since the
    other models can have one mechanism only.
    """
    classified = [run for run in runs if mechanism_of(run) is not None]
    usual = {_cell_key(run): run for run in classified if not _beyond(run) and run.run == 0}
    settings: defaultdict[str, list[RunRow]] = defaultdict(list)
    for run in classified:
        if _beyond(run) or run.run == 1:
            settings[", ".join(_beyond(run)) or ANOTHER_SEED].append(run)
    for words, here in sorted(settings.items()):
        pairs = [(usual[_cell_key(run)], run) for run in here if _cell_key(run) in usual]
        if not pairs:
            continue
        both = [(mechanism_of(one), mechanism_of(other)) for one, other in pairs if one.cell.model in COMPARING]
        both = [pair for pair in both if "unsolved" not in pair]
        solved = [run for run in here if mechanism_of(run) != "unsolved"]
        comparing = [run for run in solved if run.cell.model in COMPARING]
        wide, narrow = ([run for run in comparing if (run.cell.d >= run.cell.T) == large] for large in (True, False))
        there = {_cell_key(one): mechanism_of(one) != "unsolved" for one, _ in pairs}
        change = median(other.final - one.final for one, other in pairs)
        shares = [
            _share(words, "RC", wide),
            _share(words, "gated", wide),
            _share(words, "gated", narrow),
            _share(words, "IC", [run for run in solved if run.cell.model == "dot+sftm"]),
            Share(words, "the same", sum(one == other for one, other in both), len(both)),
        ]
        counts = [f"{len(solved)} of {len(here)}", f"{sum(there.values())} of {len(there)}"]
        counted = (*counts, f"{round(change, 1) + 0.0:+.1f}")
        yield (words, *counted, *(share.short() for share in shares))


def wrong_share(runs: Iterable[RunRow]) -> float | None:
    """Share of (token, count) cells in which a solved but refuted run is known to be wrong; the median over runs."""
    shares = [
        int(run.measured["proof_wrong"]) / int(run.measured["proof_cells"])
        for run in runs
        if not _beyond(run) and run.final >= SOLVED and run.measured.get("proof_proof") == "refuted"
    ]
    return median(shares) if shares else None


def markdown(runs: Sequence[RunRow]) -> str:
    lines = [*_table(SHARES_HEAD, shares_table(runs)), "", *_table(HEAD, (fact.cells() for fact in facts(runs)))]
    if (share := wrong_share(runs)) is not None:
        wrong = f"{100 * share:.0f} % of its cells, in the median"
        lines += ["", f"A refuted run with at least {SOLVED:g} % is wrong in {wrong}."]
    if by_d := list(gating(runs)):
        lines += [
            "",
            "Gated share, mean over the solved runs with this d (their number):",
            "",
            *_table(("d", *COMPARING), by_d),
        ]
    if others := list(other_settings(runs)):
        lines += ["", *_table(OTHER_HEAD, others)]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def reproduction(runs: Sequence[RunRow]) -> str:
    """The tables of docs/reproduction.md.

    These are every figure of the paper, singular values, and `interp sweep compare` with the worst cells. The last line
    is the power of that comparison: the same against a map that is wrong on purpose.
    """
    cells = by_cell([run for run in runs if _beyond(run) in ([], ["random embeddings"])])
    reference = read_reference()
    following = dict(pairwise(GRID))
    shifted: dict[Key, Published] = {
        (model, d, p, frozen): reference[model, d, following[p], frozen]
        for model, d, p, frozen in reference
        if not frozen and p in following
    }
    wrong = compare_cells(cells, shifted).summary()["all"]
    share = f"{100 * wrong['share']:.1f} %"
    power = f"against the published cells of the next p: {wrong['within']} of {wrong['cells']}, {share}"
    compared = ["```text", *comparison_lines(compare_cells(cells, reference), WORST), "", power, "```"]
    figures = _table(figure_facts.HEAD, figure_facts.figure_rows(runs))
    drops = _table(figure_facts.SPECTRA_HEAD, figure_facts.spectra_rows())
    return "\n".join([*figures, "", *drops, "", *compared]) + "\n"


def _beyond(run: RunRow) -> list[str]:
    """How the setting of a run differs from Fig. 1's, in words; empty for a run of Fig. 1."""
    return [words for _, words in run.cell.setting.unusual(T=32, L=10)]


def _cell_key(run: RunRow) -> tuple[str, int, int]:
    return run.cell.model, run.cell.d, run.cell.p


def _share(of: str, mechanism: str, runs: Sequence[RunRow]) -> Share:
    words = "mixed, not gated" if mechanism == "mixed" else mechanism
    return Share(of, words, sum(mechanism_of(run) == mechanism for run in runs), len(runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tables", nargs="*", type=Path, help="sweeps or tables; the bundled runs if none is given")
    parser.add_argument("--publish", type=Path, metavar="DOCS", help="write them into the pages of this folder")
    options = parser.parse_args()
    runs = read_runs(*options.tables or all_runs())
    texts = dict(zip(PAGES, (markdown(runs), reproduction(runs)), strict=True))
    print("\n".join(texts.values()))
    if options.publish is not None:
        for name, text in texts.items():
            page = options.publish / name
            before, after = SECTION.split(page.read_text())
            page.write_text(f"{before}<!-- facts -->\n\n{text}\n<!-- end of facts -->{after}")


if __name__ == "__main__":
    main()
