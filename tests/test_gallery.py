"""Alignments as values, and the folder that they are drawn into."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from commands import PACKAGE, run

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import (
    Alignment,
    Gallery,
    gallery,
    parse_formats,
    parse_samples,
    text_heatmap,
    write_gallery,
)
from fairseq_rnnsearch.figures.alignment import bpe_piece
from fairseq_rnnsearch.figures.late_gallery import LateGallery

PIECES = Alignment(
    source=("the", "ho@@", "use", "</s>"),
    target=("la", "mai@@", "son", "</s>"),
    weights=np.array(
        [[0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.3, 0.2], [0.2, 0.1, 0.7, 0.0], [0.0, 0.0, 0.1, 0.9]]
    ),
    id=3,
    score=-0.5,
)


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    words = PIECES.merge_pieces(bpe_piece)
    assert words.source == ("the", "house", "</s>")
    assert words.target == ("la", "maison", "</s>")
    expected = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9]]
    np.testing.assert_allclose(words.weights, expected, atol=1e-15)
    assert (words.id, words.score) == (3, -0.5)


def test_a_dangling_piece_does_not_swallow_the_end_symbol():
    words = Alignment(("a@@", "</s>"), ("b",), np.array([[0.25, 0.75]])).merge_pieces(bpe_piece)
    assert words.source == ("a", "</s>")
    assert words.weights.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("choice", "first_row"),
    [("keep", [0.7, 0.1, 0.1, 0.1]), ("drop", [0.7, 0.1, 0.1])]
    + [("renormalise", [7 / 9, 1 / 9, 1 / 9])],
)
def test_source_end(choice, first_row):
    np.testing.assert_allclose(PIECES.with_source_end(choice).weights[0], first_row)


def test_a_row_that_looks_only_at_the_end_stays_finite_when_renormalised():
    only_end = Alignment(("a", "</s>"), ("b",), np.array([[0.0, 1.0]]))
    assert only_end.with_source_end("renormalise").weights.tolist() == [[0.0]]


def test_links_leave_out_the_end_symbols():
    assert PIECES.links() == [(0, 0), (1, 1), (2, 2)]
    assert PIECES.pharaoh() == "0-0 1-1 2-2"
    assert Alignment(("</s>",), ("a", "</s>"), np.ones((2, 1))).pharaoh() == ""


def test_entropy_and_confidence():
    halves = Alignment(("a", "b"), ("c", "d"), np.array([[0.5, 0.5], [1.0, 0.0]]))
    assert halves.entropy() == pytest.approx(0.5)
    assert halves.confidence() == pytest.approx(0.75)
    weights = np.array([[0.5, 0.5], [0.25, 0.75]])
    ended = Alignment(("a", "</s>"), ("c", "</s>"), weights)  # the last row is no word's
    assert (ended.entropy(), ended.confidence()) == (pytest.approx(1), pytest.approx(0.5))
    alone = Alignment(("a", "</s>"), ("</s>",), weights[1:])
    assert alone.confidence() == pytest.approx(0.75)


def test_the_probability_of_a_word_is_the_product_of_its_pieces():
    pieces = ("ma@@", "i@@", "son", "</s>")
    of_pieces = Alignment(("a",), pieces, np.ones((4, 1)), probabilities=(0.5, 0.5, 0.8, 0.9))
    assert of_pieces.merge_pieces(bpe_piece).probabilities == pytest.approx((0.2, 0.9))
    with pytest.raises(UserError, match="1 probabilities for 2 target words"):
        Alignment(("a",), ("b", "c"), np.ones((2, 1)), probabilities=(0.5,))


def test_weights_of_another_shape_are_refused():
    with pytest.raises(UserError, match=r"\(2, 2\).*1 target.*2 source"):
        Alignment(("a", "b"), ("c",), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("3", {0, 1, 2}), ("0", set()), ("all", set(range(9))), ("ids:3,7", {3, 7}), (" 2 ", {0, 1})],
)
def test_samples(text, chosen):
    assert {i for i in range(9) if i in parse_samples(text)} == chosen


@pytest.mark.parametrize("text", ["", "some", "-1", "ids:", "ids:x", "3,4", "id:3"])
def test_samples_that_mean_nothing(text):
    with pytest.raises(UserError, match="heatmap-samples"):
        parse_samples(text)


def test_formats():
    assert parse_formats("png, html,png") == ("png", "html")
    for unknown in ("gif", "png,gif", ""):
        with pytest.raises(UserError, match="choose from png"):
            parse_formats(unknown)


def test_text_heatmap_draws_each_weight_under_its_word():
    drawn = text_heatmap(Alignment(("a", "bc"), ("x", "yz"), np.array([[1.0, 0.0], [0.5, 0.5]])))
    assert drawn.splitlines() == ["     b", "   a c", " x ██  ", "yz ▒▒▒▒"]


@pytest.mark.parametrize("width", [20, 40, 80])
def test_text_heatmap_keeps_to_its_width_and_shows_every_source_word(width):
    words = tuple(f"w{i}" for i in range(37))
    drawn = text_heatmap(Alignment(words, ("target",), np.full((1, 37), 1 / 37)), width)
    assert max(map(len, drawn.splitlines())) <= width
    assert drawn.count("w") == 37
    assert drawn.count("target") == drawn.count("\n\n") + 1


def test_gallery_writes_what_is_asked_for(tmp_path):
    folder = tmp_path / "new" / "folder"
    other = Alignment(("a", "</s>"), ("b", "</s>"), np.array([[0.9, 0.1], [0.2, 0.8]]), id=0)
    write_gallery(folder, [PIECES, other], parse_formats("png,text,html,jsonl,pharaoh"))
    assert sorted(path.name for path in folder.iterdir()) == [
        *("alignments.jsonl", "alignments.pharaoh", "index.html", "sentence0000.png"),
        *("sentence0000.txt", "sentence0003.png", "sentence0003.txt"),
    ]
    assert (folder / "alignments.pharaoh").read_text() == "0-0\n0-0 1-1 2-2\n"
    first, second = map(json.loads, (folder / "alignments.jsonl").read_text().splitlines())
    assert (first["id"], second["id"], second["score"]) == (0, 3, -0.5)
    np.testing.assert_allclose(second["weights"], PIECES.weights)
    assert second["source"] == list(PIECES.source)


def test_gallery_in_a_place_that_is_a_file(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match="taken"):
        write_gallery(tmp_path / "taken", [PIECES], ("text",))


# --- many sentences -------------------------------------------------------------------------------

ALL = ("png", "svg", "pdf", "text", "html", "jsonl", "pharaoh")


def some_alignments(count):
    rng = np.random.default_rng(0)
    for number in range(count):
        weights = rng.dirichlet(np.ones(3), size=2)
        yield Alignment(("a", f"b{number}", "</s>"), ("c", "</s>"), weights, id=3 * number)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@contextmanager
def drawing(folder, formats, processes=1, count=0):
    """Draw so many alignments into a folder, and nothing that is not finished stays."""
    try:
        with Gallery(folder, formats, processes) as writer:
            for alignment in some_alignments(count):
                writer.add(alignment)
            yield
    finally:
        assert not list(folder.glob(".*"))
        assert not multiprocessing.active_children()


@pytest.fixture
def few(monkeypatch):
    """Several processes are worth while from the third sentence on."""
    monkeypatch.setattr(gallery, "FEW", 2)


def test_files_do_not_depend_on_the_number_of_processes(tmp_path, few):
    for processes in (1, 2, 3):
        with drawing(tmp_path / str(processes), ALL, processes, 9):
            pass
    one = contents(tmp_path / "1")
    assert len(one) == 4 * 9 + 3
    assert one == contents(tmp_path / "2") == contents(tmp_path / "3")


def test_pictures_are_drawn_by_the_other_processes(tmp_path, few, monkeypatch):
    all_draw = multiprocessing.get_context("fork").Barrier(3)
    begun = []
    here = os.getpid()

    def save(path, *_, style):
        if os.getpid() != here and not begun:
            begun.append(all_draw.wait(60))  # no process draws them all while others begin
        (path.parent / f"{path.stem}.{os.getpid()}").touch()

    monkeypatch.setattr(gallery, "save_heatmap", save)
    with drawing(tmp_path, ("png",), 3, 12):
        pass
    names = [path.name.removeprefix("sentence").split(".") for path in tmp_path.iterdir()]
    assert sorted(int(number) for number, _ in names) == list(range(0, 36, 3))
    processes = [int(process) for _, process in names]
    assert processes.count(here) == 2 and len({*processes} - {here}) == 3


def test_write_gallery_sorts_and_reports_its_progress(tmp_path, few):
    seen = []

    def progress(alignments):
        for alignment in alignments:
            yield alignment
            seen.append(alignment.id)

    write_gallery(tmp_path, reversed(list(some_alignments(5))), ("png", "pharaoh"), progress)
    assert seen == [0, 3, 6, 9, 12]
    assert len((tmp_path / "alignments.pharaoh").read_text().splitlines()) == 5


def test_lines_are_written_as_they_come(tmp_path):
    with drawing(tmp_path, ("jsonl",), count=300):
        (unfinished,) = tmp_path.iterdir()
        assert unfinished.name != "alignments.jsonl" and unfinished.stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["alignments.jsonl"]
    lines = (tmp_path / "alignments.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == list(range(0, 900, 3))


def test_lone_surrogate_is_written_as_json_writes_it(tmp_path):
    write_gallery(tmp_path, [Alignment(("\ud800",), ("b",), np.ones((1, 1)))], ALL)
    (line,) = (tmp_path / "alignments.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["source"] == ["\ud800"]


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError(2, "of another file"), UserError])
@pytest.mark.parametrize("processes", [1, 2])
def test_interrupted_gallery_leaves_finished_pictures_only(tmp_path, few, problem, processes):
    expected = type(problem) if isinstance(problem, OSError) else problem
    formats = "png", "jsonl", "html"
    with pytest.raises(expected), drawing(tmp_path, formats, processes, 5):
        raise problem
    assert {path.suffix for path in tmp_path.iterdir()} == {".png"}


@pytest.mark.parametrize("processes", [1, 2])
def test_picture_that_cannot_be_written(tmp_path, few, processes):
    (tmp_path / "sentence0009.png").mkdir()
    message = r"sentence0009\.png cannot be written: Is a directory"
    with (
        pytest.raises(UserError, match=message),
        drawing(tmp_path, ("png", "jsonl"), processes, 8),
    ):
        pass
    assert not (tmp_path / "alignments.jsonl").exists()


@pytest.mark.parametrize(
    ("accident", "message"),
    [
        (lambda: os._exit(3), r"a process that draws was ended at sentence \d+ or soon after it"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "perhaps there is too little memory"),
        (lambda: 1 / 0, "sentence 6 cannot be drawn: ZeroDivisionError: division by zero"),
    ],
)
def test_accident_in_another_process_is_one_line(tmp_path, few, monkeypatch, accident, message):
    def save(path, *_, style):
        if path.name == "sentence0006.png":
            accident()

    monkeypatch.setattr(gallery, "save_heatmap", save)
    with (
        pytest.raises(UserError, match=message) as caught,
        drawing(tmp_path, ("png", "jsonl"), 2, 30),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("begun", [0, 1])
def test_without_fork_one_process_draws_all(tmp_path, few, monkeypatch, begun):
    """Also where memory ends after some processes have begun; they do not stay."""
    fork, forked = os.fork, []

    def refuse():
        if len(forked) >= begun:
            raise OSError(12, "Cannot allocate memory")
        forked.append(True)
        return fork()

    monkeypatch.setattr(os, "fork", refuse)
    with drawing(tmp_path, ("png",), 3, 6):
        pass
    assert len(list(tmp_path.iterdir())) == 6


def test_ids_must_increase(tmp_path):
    with pytest.raises(UserError, match="alignment 3 after 3"):
        write_gallery(tmp_path, [PIECES, PIECES], ("jsonl",))
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import atexit, multiprocessing, os, sys, time, types
package = types.ModuleType("fairseq_rnnsearch")  # spares it fairseq
package.__path__ = [{package!r}]
sys.modules["fairseq_rnnsearch"] = package
from pathlib import Path
import numpy as np
from fairseq_rnnsearch.figures import Alignment, Gallery, fonts, gallery

def draw(letter=lambda number: "b"):
    with Gallery(Path({folder!r}), ("png", "jsonl"), 2) as writer:
        for number in range({count}):
            words = ("a", letter(number))
            writer.add(Alignment(words, ("c",), np.ones((1, 2)), id=number))

{how}
"""


def program(folder, count, how):
    return PROGRAM.format(package=str(PACKAGE), folder=str(folder), count=count, how=how)


def test_gallery_of_a_program_that_is_ending(tmp_path):
    """In a process of its own: Python's own end is what may break the processes that draw."""
    command = [sys.executable, "-c", program(tmp_path, 40, "atexit.register(draw)")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(tmp_path.iterdir())) == 41


def test_missing_font_is_said_once_and_not_by_every_process(tmp_path):
    """Not before the processes have begun, or they would know that it has been said."""
    letters = 'draw(lambda number: "b" if number < 30 else chr(0x4E00 + number))'
    done = run("python", "-c", program(tmp_path, 40, f"fonts._faces = lambda: ()\n{letters}"))
    assert (done.rc, done.err.count("heatmaps:")) == (0, 1)


@pytest.fixture
def running(tmp_path):
    """A program that draws endlessly, with two processes, as a terminal would start it."""
    running = subprocess.Popen(
        [sys.executable, "-c", program(tmp_path, 10**6, "draw()")],
        stderr=subprocess.PIPE,
        start_new_session=True,
        # a shell's background jobs ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(list(tmp_path.glob("sentence*.png"))) < 40:
        assert running.poll() is None
        time.sleep(0.05)
    return running


def nobody_is_left(group):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_leaves_no_half_written_file(tmp_path, running):
    """As a terminal does it: the signal goes to the parent and to those that draw."""
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode != 0
    assert said.count(b"Traceback") == 1 and said.rstrip().endswith(b"KeyboardInterrupt")
    assert {path.suffix for path in tmp_path.iterdir()} == {".png"}
    assert not list(tmp_path.glob(".*"))
    assert nobody_is_left(running.pid)


def test_those_that_draw_end_with_a_killed_parent(running):
    running.kill()
    running.communicate()
    assert nobody_is_left(running.pid)


# --- at the end of a command ----------------------------------------------------------------------


def test_late_gallery_draws_in_any_order_when_it_is_finished(tmp_path, capsys):
    late = LateGallery(tmp_path / "new", ("png", "pharaoh"))
    for alignment in reversed(list(some_alignments(3))):
        late.add(alignment)
    assert list((tmp_path / "new").iterdir()) == []
    for _ in range(2):  # the second time there is nothing to do
        late.finish()
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["alignments.pharaoh", *(f"sentence{n:04d}.png" for n in (0, 3, 6))]
    said = capsys.readouterr().err
    assert said.count(f"3 alignments drawn in {tmp_path}/new") == 1 and "3/3" in said


def test_late_gallery_without_sentences_says_and_writes_nothing(tmp_path, capsys):
    LateGallery(tmp_path, ("png", "jsonl")).finish()
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().err == ""


def test_folder_of_a_late_gallery_is_refused_at_once(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--heatmap-dir .*file: File exists"):
        LateGallery(tmp_path / "file", ("png",))
