"""Adds the runs of a sweep to a table that ships with the package, or makes a new one.

    python -m scripts.bundle fig1 SWEEP

adds the finished runs of a sweep's folder to the table `fig1`. Where both have a run, the row with more measurements
stays.
"""

from __future__ import annotations

import sys
from dataclasses import astuple, replace
from pathlib import Path

from counting_interp.data import runs
from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.util.files import write_atomically


def add(table: Path, sweep: Path) -> int:
    """Write the table, without the paths of checkpoints.

    Returns:
        The number of runs in the table.
    """
    rows = sorted(read_runs(*[table] * table.exists(), sweep), key=lambda run: (astuple(run.cell), run.run))
    write_atomically(table, write_runs([replace(run, checkpoint="") for run in rows]).encode())
    return len(rows)


if __name__ == "__main__":
    print(f"{add(runs(sys.argv[1]), Path(sys.argv[2]))} runs")
