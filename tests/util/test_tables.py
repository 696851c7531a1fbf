"""CSV comes back as it was written, and a bad row is named."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counting_interp.util.errors import InterpError
from counting_interp.util.tables import cell_value, finite, read_csv, write_csv


@dataclass(frozen=True)
class Row:
    name: str
    d: int
    loss: float
    frozen: bool


def as_row(texts: dict[str, str]) -> Row:
    return Row(**{field.name: cell_value(field.name, str(field.type), texts[field.name]) for field in fields(Row)})


COLUMNS = [field.name for field in fields(Row)]


def test_the_one_form():
    rows = [{"a": 1, "b": None, "c": 'x,"y"'}, {"a": float("nan"), "b": -math.inf, "c": 0.1}]
    assert write_csv(rows) == 'a,b,c\n1,,"x,""y"""\nnan,-inf,0.1\n'
    assert write_csv([]) == ""


def test_rows_have_the_same_columns():
    for second in ({"a": 1}, {"a": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}):
        with pytest.raises(ValueError, match=r"column|fields"):
            write_csv([{"a": 1, "b": 2}, second])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n")),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(),
            st.booleans(),
        ),
        min_size=1,
    )
)
def test_what_was_written_is_read(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    rows = [Row(*value) for value in values]
    text = write_csv({"name": r.name, "d": r.d, "loss": r.loss, "frozen": int(r.frozen), "more": 1} for r in rows)
    path.write_text(text, encoding="utf-8")
    assert list(map(repr, read_csv(path, COLUMNS, as_row))) == list(map(repr, rows))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the column 'name'; export it again"),
        ("name,d,frozen\n", "lacks the column 'loss'; export it again"),
        ("name,d,loss,frozen\na,1,0.5,0\na,x,0.5,0\n", "line 3: d cannot be 'x'"),
        ("name,d,loss,frozen\na,1,,0\n", "line 2: loss cannot be ''"),
        ("name,d,loss,frozen\na,1e999,0,0\n", "line 2: d cannot be '1e999'"),
        ("name,d,loss,frozen\na,1,0,maybe\n", "line 2: frozen cannot be 'maybe'"),
        ("name,d,loss,frozen\na,1,0\n", "line 2: it has 3 cells"),
        ("name,d,loss,frozen\na,1,0,1,5\n", "line 2: it has 5 cells"),
        ("name,d,loss,frozen\na,1,0,1\n" + "x" * 200_000 + ",1,0,1\n", "line 3: field larger than field limit"),
        ("name,d,loss,frozen\n\x1b[31m,\x1b[31m,0,1\n", "line 2: d cannot be '.x1b"),
        (b"name,d,loss,frozen\n\xff,1,0,1\n", "not text in UTF-8"),
    ],
)
def test_a_bad_row_is_named(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InterpError, match=message) as caught:
        read_csv(path, COLUMNS, as_row, "export it again")
    assert "t.csv" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "", "x" * 10_000])
def test_a_number_that_must_be_finite_is_named(text):
    with pytest.raises(ValueError, match=r"^mean cannot be '.{0,60}'$"):
        finite("mean", text)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(InterpError, match="cannot be read as a table"):
            read_csv(path, COLUMNS, as_row)


def test_a_device_that_never_ends_is_no_table():
    with pytest.raises(InterpError, match="/dev/zero is larger than 256 MB, which no table is"):
        read_csv("/dev/zero", ["a"], dict)


def test_a_pipe_is_read_to_its_end_and_given_up_where_nobody_writes(tmp_path, monkeypatch):
    monkeypatch.setattr("counting_interp.util.files.PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InterpError, match=r"nobody writes into .*pipe; start its writer first"):
        read_csv(tmp_path / "pipe", ["a"], dict)
    ours, theirs = os.pipe()
    os.write(theirs, b"a\n5\n")
    os.close(theirs)
    assert read_csv(f"/dev/fd/{ours}", ["a"], dict) == [{"a": "5"}]
    os.close(ours)
