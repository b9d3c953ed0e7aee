"""`rnnsearch-translate`: plain text in, its translation out, from wherever it comes."""

import io
import json
import logging
import os
import pty
import re
import shutil
import signal
import sys
import threading

import pytest
import torch
from commands import generate, run, sides

from fairseq_rnnsearch import load
from fairseq_rnnsearch.commands import export, loading
from fairseq_rnnsearch.commands.translate import main
from fairseq_rnnsearch.errors import UsageError, UserError
from fairseq_rnnsearch.text.corpus import line_batches

pytest_plugins = ["trained"]


@pytest.fixture(scope="module")
def work(learned, tmp_path_factory):
    """A recipe's work folder that was moved: the data folder of the training is elsewhere."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "checkpoints").mkdir()
    shutil.copy(learned.folder / "checkpoint_best.pt", folder / "checkpoints")
    shutil.copytree(learned.corpus.data, folder / "data")
    settings = {"tokenizer": "words", "lowercase": True}
    (folder / "data/preprocessing.json").write_text(json.dumps({"en": settings, "fr": settings}))
    return folder


@pytest.fixture(scope="module")
def model(work):
    return load(work, work / "data")


def translate(work, *more, **options):
    data = f"--data={work / 'data'}"
    return run("fairseq_rnnsearch.commands.translate", work, data, *more, "--beam=3", **options)


TEXT = "Red house.\n\nvast tree bird\n"


def test_lines_of_files_and_of_standard_input(work, model, tmp_path):
    (tmp_path / "a").write_text(TEXT)
    (tmp_path / "b").write_text("Bird")  # no line feed at its end
    finished = translate(work, tmp_path / "a", "-", tmp_path / "b", stdin="Key\n").ok()
    sentences = [*TEXT.splitlines(), "Key", "Bird"]
    assert finished.out == "".join(f"{t.text}\n" for t in model.translate(sentences, beam=3))
    assert finished.out.splitlines()[1] == ""
    assert translate(work, stdin="").ok().out == "" == translate(work, stdin="").err


def test_one_object_a_line(work, model):
    finished = translate(work, "--json --nbest 2", stdin=TEXT).ok()
    found = [json.loads(line) for line in finished.out.splitlines()]
    expected = model.translate(TEXT.splitlines(), beam=3)
    for number, (one, translation) in enumerate(zip(found, expected, strict=True)):
        assert one["id"] == number + 1 and one["source"] == translation.source
        assert one["source_tokens"] == list(translation.source_tokens)
        assert one["text"] == one["nbest"][0]["text"] == translation.text
        assert one["score"] == pytest.approx(translation.score, abs=1e-4)
        assert [best["text"] for best in one["nbest"]] == [t.text for t in translation.nbest[:2]]
        rows = [sum(row) for row in one["weights"]]
        assert len(rows) == len(one["tokens"]) and rows == pytest.approx([1] * len(rows), abs=1e-4)
    assert [len(one["nbest"]) for one in found] == [2, 1, 2]
    assert found[1] | {"nbest": 0} == {
        **{"id": 2, "source": "", "source_tokens": ["</s>"], "unknown": [], "text": ""},
        "score": 0.0,
        **{"tokens": ["</s>"], "weights": [[1.0]], "nbest": 0},
        "probabilities": [1.0],
        "is_cut": False,
    }


def test_the_search_is_as_asked(work, model, monkeypatch, tmp_path):
    (tmp_path / "text").write_text("red house\n")
    asked, translate = [], model.translate
    monkeypatch.setattr(loading, "load", lambda *_, **__: model)
    monkeypatch.setattr(
        model,
        "translate",
        lambda *lines, **options: asked.append(options) or translate(*lines, **options),
    )
    names = ("lenpen", "forbid_unk", "authors_search")
    for options, expected in (
        ("", (1.0, False, False)),
        ("--lenpen 0.5", (0.5, False, False)),
        ("--forbid-unk", (1.0, True, False)),
        ("--authors-search", (1.0, False, True)),
    ):
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO()))
        main([str(work), str(tmp_path / "text"), *options.split()])
        assert tuple(asked[-1][name] for name in names) == expected
    with pytest.raises(UserError, match=r"lenpen 11\.0: must be from -10 to 10"):
        main([str(work), str(tmp_path / "text"), "--lenpen", "11"])


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_which_words_are_unknown(work, monkeypatch, tmp_path, is_terminal):
    (tmp_path / "text").write_text("red house\nred zebra bird\n")
    screen = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", screen)
    main([str(work), str(tmp_path / "text")])
    known, unknown = screen.buffer.getvalue().decode().splitlines()
    assert known == "maison rouge"
    assert unknown.endswith("  [unknown: zebra]") == is_terminal


def test_a_terminal_gets_no_escape_sequences_and_a_pipe_all_bytes(work, monkeypatch, tmp_path):
    data = shutil.copytree(work / "data", tmp_path / "data")
    (data / "SHA256SUMS").unlink()
    words = (data / "dict.fr.txt").read_text()
    (data / "dict.fr.txt").write_text(words.replace("rouge ", "r\x1b[2J\x9b\u202eé "))
    state = torch.load(work / "checkpoints/checkpoint_best.pt", weights_only=False)
    del state["task_state"]["dictionaries"]
    torch.save(state, tmp_path / "foreign.pt")
    (tmp_path / "text").write_text("red house\n")
    given = [str(tmp_path / "foreign.pt"), f"--data={data}", str(tmp_path / "text")]
    for options in ([], ["--json"], ["--nbest=2"], ["--terminal"]):
        for is_terminal in (True, False):
            screen = io.TextIOWrapper(io.BytesIO())
            monkeypatch.setattr(screen, "isatty", lambda value=is_terminal: value)
            monkeypatch.setattr("sys.stdout", screen)
            main([*given, *options])
            shown = screen.buffer.getvalue().decode()
            shown = re.sub(r"\x1b\[(48;2;[0-9;]+|0)m", "", shown)  # our own grey cells
            assert "[2J" in shown and "é" in shown
            assert ("\u202e" in shown) != is_terminal
            assert not is_terminal or not {*"\x1b\x9b"} & {*shown}


def test_pictures_name_unknown_words_and_leave_blank_lines_out(work, tmp_path):
    options = f"--heatmap-dir={tmp_path} --heatmap-format text,png,jsonl,pharaoh"
    finished = translate(work, options, stdin="red zebra\n\nbird\n").ok()
    pictures = {f"sentence000{i}.{kind}" for i in (0, 2) for kind in ("txt", "png")}
    names = {path.name for path in tmp_path.iterdir()}
    assert names == pictures | {"alignments.jsonl", "alignments.pharaoh"}
    lines = (tmp_path / "alignments.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["source"] == ["red", "<unk:zebra>", "</s>"]
    assert len(lines) == len((tmp_path / "alignments.pharaoh").read_text().splitlines()) == 3
    warning, drawn = finished.err.splitlines()
    assert warning.endswith("1 of 3 English words is unknown: zebra")
    assert drawn == f"2 alignments drawn in {tmp_path}"


def test_what_is_wrong_is_said_in_one_line(work, tmp_path):
    (tmp_path / "latin").write_bytes(b"red house\nred \xe9\n")
    finished = translate(work, tmp_path / "latin")
    assert finished.error().startswith(f"{tmp_path / 'latin'}, line 2, byte 5: byte 0xe9 is not")
    assert finished.out == "maison rouge\n"  # what came before is translated
    for options, message in {
        "--beam 0": "argument --beam: '0' must be 1 or more",
        "--no-such": "unrecognized arguments: --no-such",
        "--heatmap-format gif": "heatmap format 'gif' is unknown",
    }.items():
        refused = translate(work, options)
        assert refused.error().startswith(message) and refused.rc == 2
    lost = translate(work, "nowhere")
    assert (lost.error(), lost.rc) == ("nowhere: No such file or directory", 1)
    assert translate(work, tmp_path).error() == f"{tmp_path}: Is a directory"


def test_no_arguments_from_python_are_not_a_command():
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    out = sys.stdout
    with pytest.raises(UsageError, match="the following arguments are required"):
        export.main([])
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == handlers
    assert sys.stdout is out


# --- what comes slowly, and what ends early -------------------------------------------------------


def test_lines_do_not_wait_for_each_other():
    """A batch is what is there; the end of the input is not waited for."""
    ours, theirs = os.pipe()
    waited = []
    batches = line_batches(
        f"/dev/fd/{ours}", iter([2, 2, 2, 9, 9]), lambda: waited.append(len(waited))
    )
    os.write(theirs, b"a\nb\nc\n")
    assert next(batches) == ["a", "b"]
    assert next(batches) == ["c"] and not waited
    later = threading.Timer(0.2, lambda: (os.write(theirs, b"d\r\n"), os.close(theirs)))
    later.start()
    assert next(batches) == ["d"] and waited == [0]
    assert list(batches) == []


@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"\n", b"\n\n", b" a \n\xc2\xa0b"])
def test_lines_are_those_of_the_file(tmp_path, text):
    (tmp_path / "text").write_bytes(text)
    batches = line_batches(str(tmp_path / "text"), iter([1] * 9))
    lines = text.removesuffix(b"\n").decode().split("\n") if text else []
    assert [line for batch in batches for line in batch] == [line.strip() for line in lines]


class Begun:
    """The command in a process of its own, forked from this one, which has imported torch."""

    def __init__(self, work, stdin):
        reading, writing = zip(os.pipe(), os.pipe(), strict=True)
        self.pid = os.fork()
        if self.pid == 0:
            for number, descriptor in enumerate((stdin, *writing)):
                os.dup2(descriptor, number)
            for descriptor in reading:
                os.close(descriptor)
            self._run([str(work), f"--data={work / 'data'}", "--beam=1", "--batch-size=1"])
        for descriptor in (stdin, *writing):
            os.close(descriptor)
        self.out, self.err = map(os.fdopen, reading)

    def _run(self, arguments):
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        logging.root.handlers.clear()  # pytest's
        signal.signal(signal.SIGINT, signal.default_int_handler)
        status = 1
        try:
            main(arguments)
            status = 0
        except SystemExit as end:
            status = end.code
        finally:
            sys.stderr.flush()
            os._exit(status)

    def end(self):
        """Its status, and what it said on standard error."""
        _, status = os.waitpid(self.pid, 0)
        self.out.close()
        with self.err:
            return os.waitstatus_to_exitcode(status), self.err.read()


def test_a_person_types_sees_each_answer_and_ends_by_ctrl_c(work):
    ours, theirs = pty.openpty()
    process, said = Begun(work, theirs), ""

    def wait_for_the_prompt():
        nonlocal said
        while not said.endswith("> "):
            letter = process.err.read(1)
            assert letter, said  # it has ended
            said += letter
        said += "\n"

    sentences = ("Red bird\n", "oiseau rouge\n"), ("\n", "\n"), *[("Red zebra\n", "")] * 2
    for typed, answer in sentences:
        wait_for_the_prompt()
        os.write(ours, typed.encode())
        assert process.out.readline().startswith(answer)
    wait_for_the_prompt()
    os.kill(process.pid, signal.SIGINT)
    assert process.end() == (130, "")
    assert (
        said.startswith("Type a sentence")
        and said.count("1 of 2 English words is unknown: zebra") == 2
    )


def test_nobody_reads_the_output_any_more(work):
    theirs, ours = os.pipe()
    process = Begun(work, theirs)
    os.write(ours, b"red bird\n")
    assert process.out.readline() == "oiseau rouge\n"  # the input has not ended
    process.out.close()
    os.write(ours, b"red bird\n")
    assert process.end() == (141, "")


# --- fairseq's commands ---------------------------------------------------------------------------


def test_generate_warns_before_it_translates(learned_shortlist):
    data, checkpoint = learned_shortlist.corpus.data, learned_shortlist.checkpoint
    scored = generate(data, checkpoint, "--beam 1 --score-reference").ok()
    pairs = sides(learned_shortlist.corpus.text, "test")
    known = {line.split()[0] for line in (data / "dict.en.txt").read_text().splitlines()}
    text = [word for source, _ in pairs for word in source]
    unknown = sum(word not in known for word in text)
    said = scored.out + scored.err
    assert f"{unknown} of {len(text)} English words are unknown\n" in said
    assert "French words are unknown\n" in said
