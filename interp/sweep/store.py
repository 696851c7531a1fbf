"""Where results live: one SQLite file, checkpoints beside it. One transaction per finished run, by the coordinator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from counting_interp.interp.sweep import database
from counting_interp.interp.sweep.database import FILE, TRAINING, SweepError, sqlite_errors_mention
from counting_interp.interp.sweep.grid import SweepJob
from counting_interp.interp.sweep.integrity import Record, check
from counting_interp.interp.sweep.rows import CHECKPOINTS
from counting_interp.interp.sweep.worker import Measurement, TrainedRun
from counting_interp.util.errors import printable
from counting_interp.util.files import write_atomically
from counting_interp.util.text import version


class Store:
    """The results in a folder.

    Args:
        folder: of the sweep.
        work: `TRAINING`, `CLASSIFYING` or both: held against others who want to do the same; nothing: only read.
    """

    def __init__(self, folder: str | Path, *work: str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        with ExitStack() as resources:
            if TRAINING not in work and not self.path.is_file():
                raise SweepError(f"{printable(str(folder))} holds no sweep ({FILE}); `interp sweep run` makes one")
            for one in work:
                database.hold(self.folder, one, resources)
            self._db = database.connect(self.folder, work, resources)
            with sqlite_errors_mention(self.path):
                check(self._db, self.path)
            self.close = resources.pop_all().close

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def plan(self, jobs: Iterable[SweepJob]) -> None:
        """Say which runs there will be; those known already stay as they are."""
        with sqlite_errors_mention(self.path), self._db:
            for job in jobs:
                facts = {"run": job.run, "seed": job.seed, "parameters": job.config().num_parameters}
                row = {"name": job.name, **asdict(job.cell), **facts}
                database.insert(self._db, "jobs", row, how="INSERT OR IGNORE")

    def finished(self) -> set[str]:
        """Names of the jobs that have a result."""
        with sqlite_errors_mention(self.path):
            return {name for (name,) in self._db.execute("SELECT name FROM results")}

    def measured(self, kind: str) -> set[str]:
        """Names of the jobs that have a measurement of this kind."""
        with sqlite_errors_mention(self.path):
            if not database.columns(self._db, "measured"):
                return set()
            return {name for (name,) in self._db.execute("SELECT name FROM measured WHERE kind = ?", (kind,))}

    def lost(self) -> set[str]:
        """Names of the finished jobs whose checkpoint was kept and is gone."""
        return {
            record.job.name
            for record in self.records()
            if record.checkpoint and not (self.folder / record.checkpoint).is_file()
        }

    def record(self, job: SweepJob, run: TrainedRun) -> None:
        """Keep a finished run; a repeated one replaces what was there. Its checkpoint is there before the row that
        names it; a kill in between leaves a file that the repeated run overwrites with the same bytes."""
        checkpoint = f"{CHECKPOINTS}/{job.name}.pt" if run.checkpoint else None
        row = {
            "name": job.name,
            "final": run.final,
            "best": run.best,
            "loss": run.losses[-1] if run.losses else None,
            "losses": _rounded(run.losses),
            "accuracies": _rounded(run.accuracies),
            "seconds": run.seconds,
            "checkpoint": checkpoint,
            "finished": _now(),
            "version": version(),
        }
        with sqlite_errors_mention(self.path):
            if checkpoint is not None:
                write_atomically(self.folder / checkpoint, run.checkpoint)
            with self._db:
                database.insert(self._db, "results", row | {"digest": database.digest(row)}, how="INSERT OR REPLACE")
                self._insert_measured(job.name, run.measured)

    def record_measured(self, job: SweepJob, found: Mapping[str, Measurement]) -> None:
        """Keep what was found out about a finished run, all kinds in one transaction."""
        with sqlite_errors_mention(self.path), self._db:
            self._insert_measured(job.name, found)

    def forget_measured(self, kinds: Sequence[str]) -> None:
        """So that it is measured again."""
        with sqlite_errors_mention(self.path), self._db:
            self._db.executemany("DELETE FROM measured WHERE kind = ?", [(kind,) for kind in kinds])

    def records(self) -> list[Record]:
        """Every planned run in order, with its result and measurements where it has them."""
        with sqlite_errors_mention(self.path):
            return check(self._db, self.path, pages=False)

    def _insert_measured(self, name: str, found: Mapping[str, Measurement]) -> None:
        for kind, measurement in found.items():
            facts = {"name": name, "kind": kind, "row": json.dumps(dict(measurement.row)), "finished": _now()}
            row = {**facts, "seconds": measurement.seconds, "version": version()}
            database.insert(self._db, "measured", row | {"digest": database.digest(row)}, how="INSERT OR REPLACE")


def _rounded(values: Iterable[float]) -> str:
    return json.dumps([float(f"{value:.5g}") for value in values])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
