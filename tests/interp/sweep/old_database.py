"""A sweep's database as the first version made it, before there were versions, digests and measurements."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from counting_interp.interp.sweep.grid import SweepJob

SCHEMA = """
CREATE TABLE jobs (
  name TEXT PRIMARY KEY, model TEXT, T INTEGER, L INTEGER, d INTEGER, p INTEGER, n_layers INTEGER, frozen INTEGER,
  sampler TEXT, epochs INTEGER, run INTEGER, seed INTEGER, parameters INTEGER
);
CREATE TABLE results (
  name TEXT PRIMARY KEY REFERENCES jobs, final REAL, best REAL, loss REAL, losses TEXT, accuracies TEXT, seconds REAL,
  checkpoint TEXT, finished TEXT
);
PRAGMA user_version = 1;
"""


def make(folder: Path, jobs: list[SweepJob], finished: int) -> None:
    """`jobs` planned, the first `finished` of them done."""
    (folder / "checkpoints").mkdir(parents=True)
    with closing(sqlite3.connect(folder / "sweep.sqlite")) as database, database:
        database.executescript(SCHEMA)
        for place, job in enumerate(jobs):
            c = job.cell
            axes = (c.model, c.T, c.L, c.d, c.p, c.n_layers, c.frozen, c.sampler, c.epochs)
            row = (job.name, *axes, job.run, job.seed, job.config().num_parameters)
            database.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * 13)})", row)
            if place < finished:
                checkpoint = f"checkpoints/{job.name}.pt"
                (folder / checkpoint).write_bytes(b"weights")
                result = (job.name, 50.0, 60.0, 0.5, "[1.0, 0.5]", "[40.0, 50.0]", 2.5, checkpoint, "2026-01-01")
                database.execute(f"INSERT INTO results VALUES ({', '.join('?' * 9)})", result)
