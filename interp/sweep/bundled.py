"""The runs that come with the package, one table for each experiment, and how a table is made or grows.

    python -m counting_interp.interp.sweep.bundled fig1 SWEEP

adds the finished runs of a sweep's folder to the table `fig1`. Where both have a run, the row that says more stays.
"""

from __future__ import annotations

import sys
from dataclasses import astuple, replace
from importlib.resources import files
from pathlib import Path

from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.util.files import write_atomically

DATA = Path(str(files("counting_interp.interp.sweep") / "data"))


def bundled_tables() -> list[Path]:
    return sorted(DATA.glob("*.csv"))


def add(table: Path, sweep: Path) -> int:
    """Returns how many runs the table has now. Checkpoints stay where they are, and the table does not name them."""
    runs = sorted(read_runs(*[table] * table.exists(), sweep), key=lambda run: (astuple(run.cell), run.run))
    write_atomically(table, write_runs([replace(run, checkpoint="") for run in runs]).encode())
    return len(runs)


if __name__ == "__main__":
    print(f"{add(DATA / f'{sys.argv[1]}.csv', Path(sys.argv[2]))} runs")
