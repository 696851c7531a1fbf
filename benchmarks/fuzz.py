"""Fuzzes the checkpoint reader and the commands: `python -m benchmarks.fuzz --minutes 5`.

Every file must be read or refused with CheckpointError, within a second of processor time. A file that is read goes
through a command, which must end with a documented exit code. Each failure is printed with its seed. The strategies are
those of the tests, with other seeds.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from counting_interp.models.checkpoint import read
from counting_interp.util.errors import CheckpointError
from tests.interp.test_fuzz import COMMANDS, survives
from tests.models.checkpoint.strategies import EVERY_FILE

ROUND = 200  # files of one kind in a round
SLOW = ("report", "figures")  # run on every 500th file


class Campaign:
    """Counts the outcomes, and times the slowest refusal."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "file.pt"
        self.seen: Counter[str] = Counter()
        self.slowest = 0.0
        self.failures = 0

    def round(self, kind: str, number: int) -> None:
        """`ROUND` files of one kind; the first failure ends the round."""

        @seed(number)
        @settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(EVERY_FILE[kind])
        def try_example(build: Callable[[], bytes]) -> None:
            self.try_file(kind, build())

        try:
            try_example()
        except Exception:
            self.failures += 1
            print(f"seed {number}, {kind}:\n{traceback.format_exc(limit=-4)}", flush=True)

    def try_file(self, kind: str, data: bytes) -> None:
        self.path.write_bytes(data)
        began = time.process_time()
        try:
            read(self.path)
        except CheckpointError:
            took = time.process_time() - began
            self.slowest = max(self.slowest, took)
            assert took < 1, f"a refusal took {took:.1f} s"
            self.seen[f"refused: {kind}"] += 1
            return
        self.seen[f"read: {kind}"] += 1
        total = self.seen.total()
        name = SLOW[total % 2] if total % 500 < 2 else QUICK[total % len(QUICK)]
        survives(COMMANDS[name], self.path)
        self.seen[f"survived: interp {name}"] += 1


QUICK = [name for name in COMMANDS if name not in SLOW]


def main(minutes: float, first_seed: int) -> int:
    """Print the outcomes.

    Returns:
        The number of failures.
    """
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    end = time.process_time() + 60 * minutes
    number = first_seed
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder))
        while time.process_time() < end and campaign.failures < 10:
            for kind in EVERY_FILE:
                campaign.round(kind, number)
                number += 1
    for what, times in sorted(campaign.seen.items()):
        print(f"{times:8,}  {what}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    files = sum(times for what, times in campaign.seen.items() if not what.startswith("survived"))
    print(
        f"{files:,} files, {campaign.failures} failures, slowest refusal {campaign.slowest:.2f} s, peak {peak:.0f} MB"
    )
    print(f"seeds {first_seed} to {number - 1}, {time.process_time():.0f} s of processor time")
    return campaign.failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="Of processor time.")
    parser.add_argument("--seed", type=int, default=0, help="Of the first round.")
    options = parser.parse_args()
    raise SystemExit(main(options.minutes, options.seed) > 0)
