"""The experiment on language models, on Llamas of a few thousand weights: weights are read correctly, transplants do
what they say, teaching is resumed, and the page says what the tables say."""

import csv
import struct
from math import comb
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.experiments import in_context, language_models, pretrained, teaching
from benchmarks.experiments.opened_llama import Opened
from benchmarks.experiments.picture import picture
from benchmarks.experiments.pretrained import DIGITS, SPACE, WORDS, L, load
from benchmarks.experiments.summary import read_windows, summary
from benchmarks.experiments.teaching import Lesson, encode, examples, teach
from benchmarks.experiments.windows import Measure, make_design, shares
from counting_interp import data
from counting_interp.interp.llm.result import read_evaluation
from tests.helpers import assert_close

RUNNING, QUESTION, LABELS = (Lesson("tiny", form=form) for form in ("running", "question", "labels"))


def llama(blocks=3, seed=0):
    config = LlamaConfig(
        vocab_size=29,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=blocks,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.4,
        tie_word_embeddings=True,
        use_cache=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def without_queries(model):
    """No weight depends on the query: nothing is compared, in any block."""
    with torch.no_grad():
        for block in model.model.layers:
            block.self_attn.q_proj.weight.zero_()
    return model


@torch.no_grad()
def test_the_opened_model_is_the_model():
    model, tokens = llama(), torch.randint(26, (5, 11), generator=torch.Generator().manual_seed(0))
    assert_close(Opened(model).run(tokens)[0], model(tokens).logits, 1e-4)


@pytest.mark.parametrize("lesson", [RUNNING, QUESTION, LABELS], ids=lambda lesson: lesson.form)
def test_own_in_all_blocks_is_the_run_with_the_other_count(lesson):
    model, design = llama(), make_design(4, 6, seed=1)
    measure = Measure(model, lesson, design)
    windows = measure.windows([1, 3])
    slots = torch.arange(L)
    for pair in range(4):
        for move, (_, goal) in enumerate(design.moves[pair].tolist()):
            words = design.sequence((slots < goal).expand(4, -1), 0)
            with torch.no_grad():
                logits = model(encode(lesson, words[pair : pair + 1], design.words[pair : pair + 1, 0])).logits
            assert windows.answers[-1, 0, pair, move] == teaching.answers(lesson, logits)[0, -1].argmax() + 1


@pytest.mark.parametrize("lesson", [RUNNING, QUESTION, LABELS], ids=lambda lesson: lesson.form)
def test_where_nothing_is_compared_queries_do_what_own_does_and_freezing_nothing(lesson):
    """The theorem, at any depth: in every window, whatever the read-out."""
    measure = Measure(without_queries(llama(4)), lesson, make_design(5, 6, seed=2))
    windows = measure.windows([1, 2, 3, 4])
    assert windows.answers[:, 0].unique().numel() > 1
    assert torch.equal(windows.answers[:, 0], windows.answers[:, 4])
    for row in measure.freeze([(1, 1), (2, 4), (1, 4)], question=lesson.form != "running"):
        assert row["queries"] == 1.0


def test_shares_of_answers_by_hand():
    moves = torch.tensor([[[2, 4], [4, 2]]])
    before, own, half = torch.tensor([[2, 4]]), [[4, 2]], [[3, 3]]
    said = torch.tensor([own, half, [[2, 4]], [[2, 4]], own])
    found = shares(before, said, moves)
    assert (found["rc"], found["ic"], found["gated"]) == (0.5, 1.0, -0.5)  # by queries, the larger of both inventories
    assert (found["inventory"], found["queries"], found["moves_up"]) == (0.0, 1.0, 1.0)
    stuck = shares(before, before.expand(5, 1, 2), moves)
    assert np.isnan(stuck["rc"])


def test_a_design_nests_copies_and_never_uses_its_words_as_fillers():
    design = make_design(32, 8, seed=0)
    for words, fillers in zip(design.words.tolist(), design.fillers.tolist(), strict=True):
        assert len({*words, *fillers}) == 4 + L
    assert (design.order[:, 0] == L - 1).all()
    steps = design.moves[..., 1] - design.moves[..., 0]
    assert ((steps > 0).sum(1) == 4).all()
    assert steps.abs().max() == 3


def test_examples_say_the_truth():
    inputs, truth = examples(RUNNING, 20, seed=3)
    for row, counts in zip(inputs[:, 1:].tolist(), truth.tolist(), strict=True):
        assert counts == [row[: position + 1].count(word) for position, word in enumerate(row)]
    inputs, truth = examples(QUESTION, 20, seed=3)
    assert all(row[1:9].count(row[-1]) == count for row, (count,) in zip(inputs.tolist(), truth.tolist(), strict=True))


def test_teaching_that_was_killed_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(teaching, "SAVE_EVERY", 2)
    lesson = Lesson("tiny", steps=6, batch=4)
    whole = llama(2)
    history = teach(whole, lesson, tmp_path / "whole")
    assert [entry["step"] for entry in history] == [0, 2, 4, 6]

    killed = llama(2)
    saved = teaching._save

    def save_once(state, path):
        saved(state, path)
        raise KeyboardInterrupt

    monkeypatch.setattr(teaching, "_save", save_once)
    with pytest.raises(KeyboardInterrupt):
        teach(killed, lesson, tmp_path / "killed")
    monkeypatch.setattr(teaching, "_save", saved)
    again = llama(2, seed=5)
    teach(again, lesson, tmp_path / "killed")
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_weights_of_llama2_c_are_read_correctly(tmp_path, monkeypatch):
    """Against a forward pass of our own in float64, with the pairs that llama2.c turns."""
    d, hidden, blocks, heads, kv, vocabulary, positions = 8, 12, 2, 2, 1, 40, 16
    rng = np.random.default_rng(0)
    width = d // heads
    shapes = [(vocabulary, d), (blocks, d), (blocks, d, d), (blocks, kv * width, d), (blocks, kv * width, d)]
    shapes += [(blocks, d, d), (blocks, d), (blocks, hidden, d), (blocks, d, hidden), (blocks, hidden, d), (d,)]
    weights = [rng.normal(size=shape).astype("<f4") for shape in shapes]
    header = struct.pack("<7i", d, hidden, blocks, heads, kv, vocabulary, positions)
    data = header + b"".join(weight.tobytes() for weight in weights)
    pieces = ["<unk>", "<s>", *(f" {word}" for word in WORDS), *"123456789:", *(f"x{n}" for n in range(12))]
    tokenizer = struct.pack("<i", 9) + b"".join(struct.pack("<fi", 0.0, len(p)) + p.encode() for p in pieces)
    (tmp_path / "llama2.data").write_bytes(data + tokenizer)
    monkeypatch.setattr(pretrained, "STORIES_BYTES", len(data))
    model = load("stories15M", tmp_path / "llama2.data", pretrained=True)

    embedding, norm_1, q, k, v, o, norm_2, w1, w2, w3, norm = (weight.astype(float) for weight in weights)
    rows = [*range(2, 18), 1, *range(18, 26), 27]

    def normed(x, weight):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight

    def turned(x):  # [position, head, width], neighbouring numbers are a pair
        angle = np.arange(len(x))[:, None] * 10000.0 ** (-np.arange(0, width, 2) / width)
        pairs = x.reshape(*x.shape[:2], -1, 2) @ np.array([[1], [1j]])
        out = pairs[..., 0] * np.exp(1j * angle)[:, None]
        return np.stack([out.real, out.imag], -1).reshape(x.shape)

    tokens = [16, 3, 5, 3, 20]
    x = embedding[[rows[token] for token in tokens]]
    for b in range(blocks):
        y = normed(x, norm_1[b])
        query = turned((y @ q[b].T).reshape(len(y), heads, width))
        key, value = turned((y @ k[b].T).reshape(len(y), kv, width)), (y @ v[b].T).reshape(len(y), kv, width)
        scores = np.einsum("ihw,jw->hij", query, key[:, 0]) / np.sqrt(width)
        scores = np.where(np.tril(np.ones(scores.shape[1:])), scores, -np.inf)
        pattern = np.exp(scores - scores.max(-1, keepdims=True))
        pattern /= pattern.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jw->ihw", pattern, value[:, 0]).reshape(len(y), d) @ o[b].T
        y = normed(x, norm_2[b])
        gate = y @ w1[b].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w3[b].T)) @ w2[b].T
    expected = normed(x, norm) @ embedding[rows].T
    with torch.no_grad():
        assert_close(model(torch.tensor([tokens])).logits[0], torch.tensor(expected), 1e-3)


def test_table_and_picture_of_what_is_finished(tmp_path, monkeypatch):
    """Through all steps, with a tiny model; a lesson that was not learned has no shares."""
    lessons = tuple(Lesson("stories15M", form=form, steps=2, batch=4, seed=1) for form in ("running", "question"))
    monkeypatch.setattr(language_models, "LESSONS", (*lessons, Lesson("stories15M", seed=7)))
    monkeypatch.setattr(language_models, "load", lambda *_, **__: llama(6))
    monkeypatch.setattr(language_models, "PAIRS", 3)
    (tmp_path / "tables").mkdir()
    (tmp_path / "pictures").mkdir()
    (tmp_path / "language-models.md").write_text("Before.\n<!-- table -->\nold\n<!-- end of table -->\nAfter.\n")
    monkeypatch.setattr(language_models, "SOLVED", 0.0)
    found = language_models.run(lessons[0], None, tmp_path / "runs")
    assert len(found["windows"]) == 6
    monkeypatch.setattr(language_models, "SOLVED", 1.1)
    assert language_models.run(lessons[1], None, tmp_path / "runs")["windows"] == []
    assert language_models.run(lessons[0], None, tmp_path / "runs") == found  # what is finished is read
    language_models.write_table(tmp_path / "runs", tmp_path)
    with (tmp_path / "tables" / "language-models.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == ["window"] * 6 + ["freeze"] * 3 + ["none"]
    assert rows[-1]["pairs"] == "0"
    page = (tmp_path / "language-models.md").read_text()
    assert "old" not in page
    assert "| stories15M | question at the end | 1 |" in page
    drawing = ElementTree.fromstring((tmp_path / "pictures" / "language-models.svg").read_text())
    titles = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert "stories15M, taught (1 run)" in titles


def committed(table):
    with (language_models.DOCS / "tables" / table).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def page(*, one_line=True):
    text = (language_models.DOCS / "language-models.md").read_text(encoding="utf-8")
    return " ".join(text.split()) if one_line else text


def left(row):
    return max(float(row["left_by_patterns"]), float(row["left_by_queries"]))


def test_the_page_shows_the_committed_table():
    rows = committed("language-models.csv")
    assert summary(rows) in page(one_line=False)
    drawing = language_models.DOCS / language_models.PICTURE
    assert drawing.read_text(encoding="utf-8") == picture(rows)


def test_sentences_of_the_page_on_stories15m_are_those_of_the_table():
    rows, text = [row for row in committed("language-models.csv") if row["model"] == "stories15M"], page()
    asked = {"running": "list", "question": "question"}
    frozen = [row for row in rows if row["measure"] == "freeze" and row["where"] == asked[row["form"]]]
    first, later = (
        [left(row) for row in frozen if (row["first"], row["last"]) == blocks] for blocks in (("1", "1"), ("2", "6"))
    )
    assert f"at most {max(first):.2f} of the count is left" in text
    assert f"{min(later):.2f} to {max(later):.2f} of it is left" in text
    kinds: dict[str, dict[str, list[dict[str, str]]]] = {"pretrained": {}, "random": {}}
    for row in rows:
        if row["form"] == "running" and row["start_token"] == "1" and row["embeddings"] == "taught":
            kinds[row["weights"]].setdefault(row["seed"], []).append(row)
    shares = {}
    for weights, seeds in kinds.items():
        shares[weights] = [float(both[0]["rc"]) for run in seeds.values() if (both := read_windows(run)) is not None]
        assert len(shares[weights]) == 5
        assert f"RC {min(shares[weights]):.2f} to {max(shares[weights]):.2f} in five runs" in text
    assert min(shares["pretrained"]) > max(shares["random"])
    assert f"p = {2 / comb(10, 5):.3f}, exact rank test" in text
    windows = [row for row in rows if row["measure"] == "window" and row["ic"]]
    assert f"IC is at most {max(float(row['ic']) for row in windows):.2f}" in text

    questions: dict[str, list[float]] = {
        weights: [
            100 * float(row["accuracy"]) for row in rows if (row["form"], row["weights"]) == ("question", weights)
        ]
        for weights in kinds
    }
    assert f"three runs reach {min(questions['pretrained']):.1f} to {max(questions['pretrained']):.1f} %" in text
    assert f"not learned: {min(questions['random']):.1f} to {max(questions['random']):.1f} % in three runs" in text
    everywhere = {
        row["where"]: left(row)
        for row in rows
        if row["form"] == "question" and (row["measure"], row["first"], row["last"]) == ("freeze", "1", "6")
    }
    assert f"{everywhere['question']:.2f} of the count is left without), and {everywhere['list']:.2f} is left" in text


def test_sentences_of_the_page_on_smollm2_are_those_of_its_rows_and_its_answers():
    table, text = committed("language-models.csv"), page()
    rows = [row for row in table if (row["model"], row["form"]) == ("smollm2", "running")]
    blocks = {(row["measure"], row["first"], row["last"]): row for row in rows}
    assert f"(30 blocks, one run, {100 * float(rows[0]['accuracy']):.1f} %)" in text
    middle, late = (left(blocks["freeze", first, last]) for first, last in (("11", "20"), ("21", "30")))
    assert f"blocks 11 to 20 leave {middle:.2f} of its count, those of blocks 21 to 30 leave {late:.2f}" in text
    rc, low, high = (float(blocks["window", "1", "21"][name]) for name in ("rc", "rc_low", "rc_high"))
    assert f"read RC ({rc:.2f}, {low:.2f} to {high:.2f})" in text
    assert float(blocks["window", "1", "17"]["gated"]) > 0.95
    assert f"(IC at most {max(float(row['ic']) for row in rows if row['ic']):.2f})" in text
    result = read_evaluation(data.language_models()[0])
    slope, accuracy = result.slope(), result.accuracy()
    assert slope is not None
    assert f"slope {slope}, and {100 * accuracy.value:.1f} % of {accuracy.questions} questions" in text


def test_the_page_shows_what_was_measured_in_context():
    rows, text = committed("in-context.csv"), page()
    found = {(row["measure"], row["last"]): row for row in rows}

    def shown(measure, last=""):
        row = found[measure, last]
        return (
            f"{float(row['value']):.2f} ({float(row['low']):.2f} to {float(row['high']):.2f})" if row["value"] else ""
        )

    assert f"{100 * float(found['accuracy', '']['value']):.1f} % of 200" in text
    for measure in ("slope over copies", "slope over shift, labels shifted"):
        assert f"slope {shown(measure)}" in text
    said = {row["measure"]: 100 * float(row["value"]) for row in rows if row["measure"].startswith("says")}
    assert f"{said['says last label + 1, several copies']:.1f} % of 480 answers are the last label plus one" in text
    assert said["says copies + 1, several copies"] == 0
    assert sum(list(said.values())[:3]) == pytest.approx(100, abs=0.01)
    assert f"The other {said['says 2, several copies']:.1f} % are all 2" in text
    assert f"After one copy it says 2 in {said['says 2, one copy']:.1f} %" in text
    measures = (*(f"{kind} moves the answer" for kind in ("own", "labels", "copies")), "rc", "ic")
    for last in ("12", "18", "21", "24", "30"):
        cells = [f"1 to {last}", *(shown(measure, last) for measure in measures)]
        assert " ".join(f"| {' | '.join(cells)} |".split()) in text


@torch.no_grad()
def test_labels_are_counts_and_only_those_of_the_word_are_shifted():
    words, asked = torch.tensor([[0, 1, 0, 2, 0, 3, 4, 5]]), torch.tensor([0])
    plain, shifted = (encode(LABELS, words, asked, shift)[0] for shift in (0, 2))
    assert (plain[3:-2:4] - DIGITS + 1).tolist() == [1, 1, 2, 1, 3, 1, 1, 1]
    assert (shifted - plain)[3:-2:4].tolist() == [2, 0, 2, 0, 2, 0, 0, 0]
    assert plain[-2:].tolist() == [0, SPACE]


@torch.no_grad()
def test_labels_and_copies_in_all_blocks_are_the_runs_with_these_labels_and_copies():
    model, design, slots = llama(3), make_design(3, 6, seed=1), torch.arange(L)
    moved = in_context.label_transplants(Measure(model, LABELS, design), [1, 3])

    def said(copies, shift):
        words = design.sequence((slots < copies).expand(3, -1), 0)
        logits = model(encode(LABELS, words, design.words[:, 0], shift)).logits
        return teaching.answers(LABELS, logits)[:, -1].argmax(-1)

    moves = [*in_context.MOVES, *(move[::-1] for move in in_context.MOVES)]
    for number, (i, j) in enumerate(moves):
        after = {"own": said(j, 2), "labels": said(i, 2 + j - i), "copies": said(j, 2 - j + i)}
        for kind, answer in after.items():
            assert torch.equal(moved[kind][-1, number], (answer - said(i, 2)) / (j - i))
    rows = list(in_context.moved_rows(moved, [1, 3]))
    assert [row["last"] for row in rows] == [*"111333"]
    assert float(rows[3]["value"]) == pytest.approx(float(moved["own"][-1].mean()), abs=1e-4)


def test_a_model_that_does_not_count_stops_at_the_gate():
    rows = list(in_context.rows(llama(2), pairs=4))
    assert [row["measure"] for row in rows] == ["accuracy", "slope over copies"]
    assert float(rows[1]["value"]) < 0.5


def test_two_windows_are_read_and_runs_are_averaged():
    def window(seed, last, up, down, rc):
        shares = {"rc": rc, "ic": "0.0", "gated": "0.2"} if rc else dict.fromkeys(("rc", "ic", "gated"), "")
        return {**COMMON, "seed": seed, "measure": "window", "last": last, "moves_up": up, "moves_down": down, **shares}

    rows = [
        window("0", "1", "0.1", "0.1", ""),
        window("0", "2", "0.2", "0.3", "0.8"),
        window("0", "3", "0.5", "0.6", "0.9"),
    ]
    rows += [window("1", "1", "0.3", "0.3", "0.6"), window("1", "2", "0.4", "0.7", "0.7")]
    frozen = {**COMMON, "measure": "freeze", "where": "list", "first": "1"}
    rows += [
        {**frozen, "seed": "0", "last": last, "left_by_patterns": left, "left_by_queries": "0.0"}
        for last, left in (("6", "0.25"), ("1", "0.9"))
    ]
    lines = summary(rows).splitlines()
    assert len(lines) == 4
    assert lines[2].endswith(
        "| 1 to 1 ... 2 | 0.70 (0.60 to 0.80) | 0.00 (0.00 to 0.00) | 0.20 (0.20 to 0.20) | 0.25 |"
    )
    assert lines[3].endswith("| 1 to 2 ... 3 | 0.80 (0.70 to 0.90) | 0.00 (0.00 to 0.00) | 0.20 (0.20 to 0.20) |  |")
    assert lines[2].startswith("| stories15M | running count | 2 | 20.0 (20.0 to 20.0) % |")


COMMON = {
    "model": "stories15M",
    "weights": "pretrained",
    "form": "running",
    "start_token": "1",
    "embeddings": "taught",
    "accuracy_before": "0.2",
    "accuracy": "0.99",
}
