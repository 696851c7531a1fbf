"""No command destroys anything: the same rule for all outputs, found out before any work is done."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from counting_interp.models import CountingTransformer
from counting_interp.util.files import LIST_NAME, OutputError, OutputFolder, check_checkpoint_output, check_output, held
from tests.helpers import small_model

CONSTRUCT = ["construct", "rc-bos", "-T", 5, "-L", 3, "-o"]
TRAIN = ["train", "--model", "lin", "-d", 2, "-p", 2, "-T", 4, "-L", 3, "--epochs", 1, "--sequences", 32, "-o"]


@pytest.fixture
def ckpt(tmp_path) -> Path:
    small_model("lin").save(tmp_path / "ck.pt")
    return tmp_path / "ck.pt"


@pytest.mark.parametrize("how", ["itself", "symbolic", "hard"])
@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_a_report_never_replaces_its_checkpoint(interp, ckpt, how, more):
    before, output = ckpt.read_bytes(), ckpt
    if how != "itself":
        output = ckpt.with_name("other.html")
        output.symlink_to(ckpt) if how == "symbolic" else os.link(ckpt, output)
    code, out, err = interp("report", ckpt, "-o", output, *more)
    assert (code, out) == (2, "")
    assert err == f"interp: {output} is one of the inputs; give another output\n"
    assert ckpt.read_bytes() == before


def test_a_report_replaces_reports_and_nothing_else(interp, ckpt, tmp_path, monkeypatch):
    made: list[str] = []

    def page_of(subjects: object, others: object = ()) -> str:
        made.append("")
        return f'<meta name="generator" content="interp report">{len(made)}'

    subject = SimpleNamespace(drawings=["a figure"])
    monkeypatch.setattr("counting_interp.interp.pages.report.report_entry_of", lambda path, **_: subject)
    monkeypatch.setattr("counting_interp.interp.pages.report.report_html", page_of)
    page = tmp_path / "page.html"
    assert interp("report", ckpt, "-o", page) == (0, f"{page}\n", "")
    assert interp("report", ckpt, "-o", page) == (0, f"{page}\n", "")
    assert page.read_text().endswith("2")
    page.write_text("<html>my own</html>")
    code, _, err = interp("report", ckpt, "-o", page)
    assert code == 2
    assert err == f"interp: {page} exists and was not made by this command; --overwrite replaces it\n"
    assert page.read_text() == "<html>my own</html>"
    assert interp("report", ckpt, "-o", page, "--overwrite")[0] == 0
    assert interp("report", ckpt, "-o", "/dev/null")[:2] == (0, "")
    assert not Path("/dev/null").is_file()


def test_a_construction_replaces_nothing_unasked(interp, ckpt):
    ckpt.chmod(0o400)
    before = ckpt.read_bytes()
    code, _, err = interp(*CONSTRUCT, ckpt)
    assert code == 2
    assert "--overwrite replaces it" in err
    assert ckpt.read_bytes() == before
    assert interp(*CONSTRUCT, ckpt, "--overwrite")[0] == 0
    assert ckpt.read_bytes() != before
    assert interp(*CONSTRUCT, "/dev/null")[0] == 0
    assert interp(*CONSTRUCT, ckpt.with_suffix(".txt"))[0] == 2


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
@pytest.mark.parametrize("name", ["sweep.sqlite", "checkpoints/a.pt"])
def test_an_export_never_replaces_what_it_reads(interp, tmp_path, name, more):
    from counting_interp.interp.sweep.store import TRAINING, Store

    Store(tmp_path / "sweep", TRAINING).close()
    (tmp_path / "sweep" / "checkpoints" / "a.pt").write_bytes(b"weights")
    before = (tmp_path / "sweep" / name).read_bytes()
    code, _, err = interp("sweep", "export", tmp_path / "sweep", "-o", tmp_path / "sweep" / name, *more)
    assert code == 2
    assert "is one of the inputs" in err
    assert (tmp_path / "sweep" / name).read_bytes() == before


def test_an_export_is_repeated_beside_the_sweep(interp, tmp_path):
    from counting_interp.interp.sweep.store import TRAINING, Store
    from counting_interp.interp.sweep.table import COLUMNS

    Store(tmp_path / "sweep", TRAINING).close()
    table = tmp_path / "sweep" / "table.csv"
    table.write_text(",".join(COLUMNS) + "\n1,2\n")
    assert interp("sweep", "export", tmp_path / "sweep", "-o", table)[0] == 0
    assert "1,2" not in table.read_text()


def test_the_files_of_a_folder_are_known_by_their_list(tmp_path):
    folder = OutputFolder(tmp_path / "out")
    folder.write("a.csv", b"1")
    (tmp_path / "out" / "b.csv").write_bytes(b"mine")
    again = OutputFolder(tmp_path / "out")
    again.write("a.csv", b"2")
    with pytest.raises(OutputError, match=r"b\.csv exists and was not made by this command"):
        again.check(["a.csv", "b.csv"])
    assert (tmp_path / "out" / "b.csv").read_bytes() == b"mine"
    assert OutputFolder(tmp_path / "out", overwrite=True).write("b.csv", b"3").read_bytes() == b"3"
    with pytest.raises(OutputError, match="one of the inputs"):
        OutputFolder(tmp_path / "out", [tmp_path / "out" / "a.csv"], overwrite=True).check(["a.csv"])
    with pytest.raises(OutputError, match="not a folder"):
        OutputFolder(tmp_path / "out" / "a.csv")


def test_two_commands_can_fill_a_folder_at_once(tmp_path):
    first, second = OutputFolder(tmp_path), OutputFolder(tmp_path)
    for one, other in ((first, second), (second, first)):
        one.write("a.csv", b"1")
        other.write("a.csv", b"2")
    first.write("b.csv", b"3")
    OutputFolder(tmp_path).check(["a.csv", "b.csv"])
    assert (tmp_path / LIST_NAME).read_text().split() == ["a.csv", "b.csv"]


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to(path.parent.parent / "notes")])
def test_a_list_that_is_no_file_is_neither_read_nor_written_through(tmp_path, make):
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "figures").mkdir()
    make(tmp_path / "figures" / LIST_NAME)
    with pytest.raises(OutputError, match="is no regular file; remove it"):
        OutputFolder(tmp_path / "figures")
    assert (tmp_path / "notes").read_text() == "mine"


def test_figures_leave_the_files_of_others_alone(interp, ckpt, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "spectrum-1.csv").write_text("mine")
    figures = ["figures", ckpt, "--only", "spectrum", "--format", "html", "-o", tmp_path / "out"]
    code, out, err = interp(*figures)
    assert (code, out) == (2, "")
    assert "spectrum-1.csv exists" in err
    assert os.listdir(tmp_path / "out") == ["spectrum-1.csv"]
    (tmp_path / "out" / "spectrum-1.csv").unlink()
    assert interp(*figures)[0] == 0
    assert interp(*figures)[0] == 0


def test_an_output_that_is_a_folder(tmp_path):
    with pytest.raises(OutputError, match="is a folder"):
        check_output(tmp_path, (), overwrite=True)


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("folder", ["--overwrite"], "is a folder"),
        ("x.txt", [], "does not end like a checkpoint"),
        ("none/x.pt", [], "does not exist"),
        ("pipe.pt", ["--overwrite"], "is no regular file"),
    ],
)
def test_training_is_refused_before_it_begins(interp, tmp_path, monkeypatch, name, more, message):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.pt")
    monkeypatch.setattr("counting_interp.interp.cli.train_runs.run_all", pytest.fail)
    code, out, err = interp(*TRAIN, tmp_path / name, *more)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_second_training_into_one_file_is_refused(interp, tmp_path):
    with held(tmp_path / "ck.pt"):
        code, out, err = interp(*TRAIN, tmp_path / "ck.pt")
    assert (code, out) == (1, "")
    assert err == f"interp: another run is writing {tmp_path}/ck.pt; wait for it, or give another output\n"
    (tmp_path / ".ck.pt.mine.tmp").write_bytes(b"mine")
    assert interp(*TRAIN, tmp_path / "ck.pt")[0] == 0
    assert sorted(os.listdir(tmp_path)) == [".ck.pt.mine.tmp", "ck.pt"]
    assert CountingTransformer.load(tmp_path / "ck.pt").config.d == 2


def test_a_checkpoint_is_not_written_over_an_input_behind_a_link(ckpt, tmp_path):
    (tmp_path / "link.pt").symlink_to(ckpt)
    with pytest.raises(OutputError, match="is one of the inputs"):
        check_checkpoint_output(tmp_path / "link.pt", overwrite=True, inputs=[ckpt])
