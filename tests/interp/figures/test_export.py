"""Drawings become files: every format, numbers that read back, and a clear word where no browser is."""

from __future__ import annotations

import copy
import csv
import pickle

import plotly.graph_objects as go
import pytest
from typer.testing import CliRunner

from counting_interp.interp.cli import app
from counting_interp.interp.figures import style
from counting_interp.interp.figures.figure import Figure
from counting_interp.interp.pages import export
from counting_interp.interp.pages.export import figure_page, index_page
from tests.interp.browser import chromium, needs_browser


def drawing(name: str = "example", caption: str = "Two points.") -> Figure:
    figure = style.apply(go.Figure(go.Scatter(x=[1, 2], y=[0.1, 0.2])), 360, 240)
    return Figure(figure, name=name, caption=caption, table=[{"x": 1, "y": 0.1}, {"x": 2, "y": 1 / 3}])


def test_a_drawing_is_a_figure_with_its_numbers():
    figure = drawing()
    figure.update_layout(title="still a plotly figure")
    assert isinstance(figure, go.Figure)
    rows = list(csv.DictReader(figure.to_csv().splitlines()))
    assert [float(row["y"]) for row in rows] == [0.1, 1 / 3]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda figure: pickle.loads(pickle.dumps(figure))])
def test_copies_keep_everything(clone):
    figure = clone(drawing())
    assert (figure.name, figure.caption, figure.table) == ("example", "Two points.", drawing().table)
    assert figure.to_dict() == drawing().to_dict()


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 101])
def test_names_that_are_no_file_names_are_refused(name):
    with pytest.raises(ValueError, match="becomes a file name"):
        drawing(name)


def test_ragged_tables_are_refused():
    with pytest.raises(ValueError, match="different columns"):
        Figure(go.Figure(), name="x", caption="", table=[{"a": 1}, {"b": 1}])


@needs_browser
def test_every_format_is_written(tmp_path):
    done = export.write([drawing("one"), drawing("two")], tmp_path / "out")
    expected = {f"{name}.{ending}" for name in ("one", "two") for ending in ("html", "png", "svg", "pdf", "csv")}
    assert {path.name for path in done.paths} == expected | {"plotly.min.js", "index.html"}
    assert done.missing is None
    starts = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}
    for ending, start in starts.items():
        assert (tmp_path / "out" / f"one.{ending}").read_bytes().startswith(start)


def test_without_a_browser_pages_and_numbers_are_written_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-such-browser"))
    done = export.write([drawing()], tmp_path / "out", ("png", "pdf"))
    assert {path.name for path in done.paths} == {"plotly.min.js", "example.html", "example.csv", "index.html"}
    assert done.missing is not None
    assert "png, pdf could not be written" in done.missing
    assert "BROWSER_PATH" in done.missing


@needs_browser
def test_the_index_shows_what_is_in_the_folder(tmp_path):
    hostile = "</script><img src=x onerror=alert(1)>"
    export.write([drawing("before")], tmp_path / "out", ("html",))
    done = export.write([drawing("one", caption=hostile), drawing("two")], tmp_path / "out", ("html", "svg"))
    assert done.paths[-1].name == "index.html"
    with chromium(tmp_path / "profile") as page:
        page.open(done.paths[-1])
        load = "Promise.all([...document.images].map((one) => (one.loading = 'eager', one.decode())))"
        widths = page.evaluate(f"{load}.then(() => [...document.images].map((one) => one.naturalWidth))")
        assert len(widths) == 2
        assert min(widths) > 0
        links = page.evaluate("[...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))")
        assert page.complaints == []
    assert set(links) == {f"{n}.{e}" for n in ("one", "two") for e in ("html", "svg", "csv")} | {"./before.html"}


def test_the_command_says_which_formats_want_a_browser_and_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-such-browser"))
    words = ["figures", "bos-d45-p4", "--only", "overlap", "--format", "png", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    assert "png could not be written" in done.stderr
    assert "BROWSER_PATH" in done.stderr
    assert {path.suffix for path in (tmp_path / "out").iterdir()} >= {".html", ".csv"}
    assert not list((tmp_path / "out").glob("*.png"))


def test_a_page_has_no_outside_address_and_a_caption_is_no_markup():
    text = figure_page(drawing(caption="</script><img src=x onerror=alert(1)>"))
    assert "<img" not in text
    assert "http://" not in text
    assert "https://" not in text


def test_formats_are_parsed():
    assert export.parse_formats("png, HTML,png") == ("png", "html")
    with pytest.raises(ValueError, match="got 'gif'"):
        export.parse_formats("gif")


def test_two_figures_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same file: example"):
        export.write([drawing(), drawing()], tmp_path)


def test_nothing_is_drawn_with_a_global_template():
    import plotly.io

    style.apply(go.Figure(), 300, 200)
    assert plotly.io.templates.default == "plotly"


def test_a_title_that_is_given_later_has_the_size_of_the_others_and_stays_in_the_figure():
    figure = style.apply(go.Figure(), 300, 200)
    figure.update_xaxes(title="given later")
    title = figure.layout.template.layout.xaxis.title
    assert (title.font.size, title.standoff) == (style.FONT_SIZE, 6)
    assert figure.layout.xaxis.title.font.size is None  # what the template says holds


def test_names_in_the_list_of_a_folder_are_text_on_its_index():
    """The list may be anybody's."""
    page = index_page([], ['<img src=x onerror="alert(1)">.html', "javascript:alert(1).html"])
    assert "<img" not in page
    assert 'href="javascript' not in page


@pytest.mark.parametrize(("end", "logged"), [(b"{bye}\n", 0), (b"{bye}\n{bye}\n", 0), (b'{"id"', 1)])
def test_the_browser_s_goodbye_is_no_traceback_but_a_broken_message_is(monkeypatch, caplog, end, logged):
    """choreographer reads what its own end writes into the pipe together with a last message."""
    from choreographer.channels import pipe

    def reads(*_):
        if not parts:
            raise OSError("closed")
        return parts.pop()

    parts = [b'{"id": 1}\0' + end]
    channel = pipe.Pipe()
    channel.open()
    monkeypatch.setattr(pipe.os, "read", reads)
    monkeypatch.setattr(pipe._logger, "filters", [export.not_a_goodbye])
    assert channel.read_jsons()[0] == [{"id": 1}]
    assert [record.message for record in caplog.records] == ["JSONError decoding message. Ignoring"] * logged


@needs_browser
def test_the_browser_s_goodbye_is_told_from_other_messages_wherever_images_are_drawn():
    from choreographer.channels import pipe

    assert export.render([drawing()], ["png"])[1] is None
    assert export.not_a_goodbye in pipe._logger.filters
