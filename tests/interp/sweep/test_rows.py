"""Databases and tables from strangers: every value of the wrong kind, with a digest that fits, ends in one sentence."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from counting_interp.interp.pages.atlas import atlas_html
from counting_interp.interp.sweep.compare import compare_cells, comparison_lines, read_reference
from counting_interp.interp.sweep.rows import TABLES, digest
from counting_interp.interp.sweep.run import classify_sweep, read_status, run_sweep, status_lines
from counting_interp.interp.sweep.statistics import by_cell, mechanisms
from counting_interp.interp.sweep.store import FILE, rescue
from counting_interp.interp.sweep.table import read_runs, write_runs
from counting_interp.interp.sweep.worker import PROOF, VERDICT, Measuring
from counting_interp.util.errors import InterpError
from tests.interp.sweep import fakes
from tests.interp.sweep.test_table import Serial

STEERING = "\x1b[2J\u202e"
WRONG: tuple[Any, ...] = (None, "x", "", b"x", -1, 0, 2**62, -1.5, 1e300, float("inf"), STEERING, "[" * 100_000)
ROWS = [5, "x", [], None, {"label": ["RC"]}, {"label": {}}, {"kept": 1e300}, {"kept": 10**400}, {"kept": "x"}]
ROWS += [{"label": "RC", "case": 5, "leans": 5}, {"label": STEERING}, {STEERING: 1}, {"Label": 1}, {"x" * 100: 1}]
ROWS += [
    {"label": "RC", "kept": True, "with_t": "x"},
    {"label": 5},
    {"label": "gated"},
    {"share": [1]},
    {"label": "x" * 999},
]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(fakes.FOLDER, str(tmp_path))
    run_sweep(tmp_path / "sweep", fakes.jobs(2, T=32, L=10), Serial())
    classify_sweep(tmp_path / "sweep", Serial(fakes.judged), Measuring((VERDICT, PROOF)))
    return tmp_path / "sweep"


def doctored(folder: Path, table: str, column: str, value: Any) -> None:
    """One value of the first row of a table, with a digest made to fit."""
    names = [name for name in TABLES[table] if name != "PRIMARY KEY"]
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        found = database.execute(f"SELECT {', '.join(names)} FROM {table} WHERE rowid = 1").fetchone()
        row = dict(zip(names, found, strict=True)) | {column: value}
        if "digest" in row and column != "digest":
            row["digest"] = digest(row)
        changes = ", ".join(f"{name} = ?" for name in names)
        database.execute(f"UPDATE {table} SET {changes} WHERE rowid = 1", tuple(row.values()))


def read_everything(folder: Path) -> str | None:
    """What every command that reads a sweep does with it; the sentence where it is refused."""
    shown: list[str] = []
    try:
        runs = read_runs(folder)
        shown += status_lines(read_status(folder)) if folder.is_dir() else []
        shown += [write_runs(runs), str(mechanisms(runs))]
        shown += comparison_lines(compare_cells(by_cell(runs), read_reference()), 5)
        atlas_html(runs, [], "a sweep")
    except InterpError as error:
        shown = [str(error)]
        assert "\n" not in shown[0]
        return shown[0]
    finally:
        assert all(line.isprintable() for text in shown for line in text.splitlines())
    return None


def wrong_values() -> Iterator[tuple[str, str, Any]]:
    for table, columns in TABLES.items():
        for column in columns:
            if column != "PRIMARY KEY":
                yield from ((table, column, value) for value in WRONG)
    yield from (("measured", "row", json.dumps(row)) for row in ROWS)


def test_values_of_the_wrong_kind_are_one_sentence(folder):
    whole = (folder / FILE).read_bytes()
    refused = 0
    for table, column, value in wrong_values():
        (folder / FILE).write_bytes(whole)
        try:
            doctored(folder, table, column, value)
        except sqlite3.IntegrityError:  # SQLite itself does not take it
            continue
        refused += read_everything(folder) is not None
    assert refused > 200
    (folder / FILE).write_bytes(whole)
    assert read_everything(folder) is None


@pytest.mark.parametrize(
    "statements",
    [
        "ALTER TABLE results ADD COLUMN extra TEXT GENERATED ALWAYS AS (hex(zeroblob(2000000000))) VIRTUAL",
        "ALTER TABLE results ADD COLUMN extra TEXT AS (hex(zeroblob(2000000000)))",
        "DROP TABLE measured; CREATE TABLE measured (name TEXT, kind TEXT, row TEXT CHECK (length(zeroblob(2e9)) > 1))",
        "CREATE VIEW more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "DROP TABLE measured; CREATE VIEW measured AS SELECT name, 'verdict' AS kind FROM results",
        "CREATE TRIGGER more AFTER INSERT ON results BEGIN DELETE FROM jobs; END",
        "CREATE INDEX more ON results (hex(final))",
    ],
)
def test_a_database_that_computes_is_not_read(folder, statements):
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.executescript(statements)
    assert "is no sweep's database: no sweep makes such a" in str(read_everything(folder))
    with pytest.raises(InterpError, match="is no sweep's database"):
        rescue(folder)


def test_names_of_columns_are_not_read_as_sql(folder):
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute('ALTER TABLE jobs ADD COLUMN "name, (nonsense(1))" TEXT')
    assert read_everything(folder) is None


def test_a_row_with_a_large_number_does_not_make_a_rescue_endless(folder):
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute("UPDATE results SET rowid = 1 << 62, final = 'x' WHERE rowid = 2")
    assert "1 of 2 results are whole" in str(read_everything(folder))
    assert rescue(folder).kept["results"] == 1


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("final", "101"),
        ("seconds", "-1"),
        ("seconds", "inf"),
        ("parameters", "0"),
        ("version", STEERING),
        ("run", "-1"),
        ("seed", "9" * 30),
        ("checkpoint", STEERING),
        ("verdict_label", STEERING),
        ("verdict_label", "x" * 1000),
        ("verdict_kept", "1e300"),
        ("verdict_kept", "nan"),
    ],
)
def test_tables_are_held_to_the_same(folder, column, text):
    header, first = write_runs(read_runs(folder)).splitlines()[:2]
    cells = dict(zip(header.split(","), first.split(","), strict=True)) | {column: text}
    table = folder / "table.csv"
    table.write_text(f"{header}\n{first}\n")
    assert read_everything(table) is None
    table.write_text(",".join(cells) + "\n" + ",".join(cells.values()) + "\n")
    assert read_everything(table) is not None
    table.write_text(f"{header},verdict_{STEERING}\n{first},1\n")
    assert read_everything(table) is not None
