"""Writing: what is replaced, what is written into, what is removed, and what is nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from counting_interp.util.errors import InterpError
from counting_interp.util.files import SUFFIX, held, remove_leftovers, write_atomically
from tests.helpers import ROOT


def test_a_link_is_followed_and_stays_one(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("far/file")
    (tmp_path / "hanging").symlink_to("far/new")
    for name, target in (("link", "file"), ("hanging", "new")):
        write_atomically(tmp_path / name, b"data")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "far" / target).read_bytes() == b"data"
    assert sorted(os.listdir(tmp_path)) == ["far", "hanging", "link"]


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_atomically(tmp_path / "a", b"data")
    assert (tmp_path / "a").is_symlink()


def test_a_pipe_is_written_into(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_atomically(tmp_path / "pipe", b"data" * 100_000)
    reader.join()
    assert received == [b"data" * 100_000]
    assert (tmp_path / "pipe").is_fifo()


def test_a_device_stays_a_device():
    before = os.stat(os.devnull)
    write_atomically(os.devnull, b"data")
    assert os.stat(os.devnull).st_rdev == before.st_rdev
    assert not [name for name in os.listdir("/dev") if SUFFIX in name]


@pytest.mark.parametrize("redirected", ["file", "pipe"])
def test_the_standard_output_is_written_in_order(tmp_path, redirected):
    code = "from counting_interp.util.files import write_atomically\n"
    code += "print('a'); write_atomically('/dev/stdout', b'b\\n'); print('c')"
    command = [sys.executable, "-c", code]
    if redirected == "pipe":
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        assert done.stdout == b"a\nb\nc\n"
    else:
        with open(tmp_path / "out", "wb") as out:
            subprocess.run(command, cwd=ROOT, stdout=out, check=True)
        assert (tmp_path / "out").read_bytes() == b"a\nb\nc\n"


def leftover(folder, name="file"):
    path = folder / f".{name}.abcd_123{SUFFIX}"
    path.write_bytes(b"half")
    return path


def test_leftovers_of_the_dead_are_removed_by_the_next_writer(tmp_path):
    dead, other = leftover(tmp_path), leftover(tmp_path, "other")
    write_atomically(tmp_path / "file", b"data")
    assert not dead.exists()
    assert other.exists()


def test_the_files_of_users_and_of_the_living_stay(tmp_path):
    import fcntl

    users = [tmp_path / name for name in (".file.notes.tmp", ".file.tmp", ".file.abcd_123.tmp", f".file.my{SUFFIX}")]
    for path in users:
        path.write_bytes(b"mine")
    alive = leftover(tmp_path)
    with alive.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_leftovers(tmp_path / "file")
        assert alive.exists()
        assert all(path.exists() for path in users)
    remove_leftovers(tmp_path / "file")
    assert not alive.exists()


def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    write_atomically(tmp_path / "file", b"old")

    def fail(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_held_is_refused_to_others_and_free_afterwards(tmp_path):
    code = f"from counting_interp.util.files import held\nwith held({str(tmp_path / 'file')!r}): print('got it')"
    command = [sys.executable, "-c", code]
    with held(tmp_path / "file"):
        refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert f"errors.Held: another run is writing {tmp_path}/file; wait for it" in refused.stderr
        with pytest.raises(InterpError, match="another run"), held(tmp_path / "file"):
            pass
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout == "got it\n"
    assert not os.listdir(tmp_path)


def test_a_pipe_that_nobody_opens_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("counting_interp.util.files.PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InterpError, match=r"nobody reads .*pipe; start its reader first"):
        write_atomically(tmp_path / "pipe", b"data")


def test_a_pipe_whose_reader_does_not_read_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("counting_interp.util.files.PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(InterpError, match="nobody reads"):
        write_atomically(tmp_path / "pipe", bytes(10**6))
    os.close(reader)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_lock_that_is_no_file_is_refused(tmp_path, make):
    make(tmp_path / ".run.pt.lock")
    with pytest.raises(InterpError, match="where a lock should be, is no regular file"), held(tmp_path / "run.pt"):
        pass
