"""Measure a living page in headless Chromium: how long a translation takes, and how exact it is.

    python recipes/benchmark/living.py living.html --text test.en
    python recipes/benchmark/living.py living.html --text test.en --reference test.fr \\
        --checkpoint checkpoint_best.pt --data data-bin

Time is that of `rnnsearch.translate`, as the page calls it, by length of the sentence; memory is
that of Chromium's process with the page, less that with an empty one. With a checkpoint, the page's
translations of the first sentences are compared with those of `load()`: with the weights as the
page has rounded them, and with the unrounded ones. `--json` keeps all numbers, and `--picture` what
the page then shows at an address such as "#text=A+man+reads.&step=0.4".
"""

import argparse
import json
import logging
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
from machine import description

from fairseq_rnnsearch import Translator, load
from fairseq_rnnsearch.alignment.evaluation.sentences import read_sentences
from fairseq_rnnsearch.command_line import OneLineParser, program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.files import replacing, write_text
from fairseq_rnnsearch.inference.model_folder import quantised

FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-background-networking --no-first-run"
FLAGS += " --hide-scrollbars"
WIDTH = 1080  # of a picture, in pixels
CALL = """
    const done = arguments[2], start = performance.now();
    rnnsearch.translate(arguments[0], {beam: arguments[1]})
      .then((answer) => done({...answer, milliseconds: performance.now() - start}),
            (error) => done({error: error.message}));
"""


# --- the page ------------------------------------------------------------------------------------


@contextmanager
def chromium() -> Iterator[Any]:
    """Give a headless Chromium with a profile of its own."""
    try:
        from selenium import webdriver
    except ImportError:
        raise UserError(
            "selenium is not installed: pip install 'fairseq-rnnsearch[browser]'"
        ) from None
    programs = (
        shutil.which("chromium") or shutil.which("google-chrome"),
        shutil.which("chromedriver"),
    )
    if not all(programs):
        raise UserError("chromium and chromedriver must be installed")
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = programs[0]
        for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
            options.add_argument(flag)
        driver = webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
        driver.set_script_timeout(120)
        try:
            yield driver
        finally:
            driver.quit()


def translated(driver: Any, sentences: Sequence[str], beam: int) -> list[dict]:
    """Return what the page answers to each sentence, with the milliseconds that it took."""
    answers = []
    for number, sentence in enumerate(sentences, start=1):
        answers.append(driver.execute_async_script(CALL, sentence, beam))
        if number % 50 == 0:
            print(f"{number} of {len(sentences)} sentences", file=sys.stderr)
    return answers


def resident(driver: Any) -> float:
    """Return the memory of the process that shows the page, in megabytes; Linux alone tells it."""
    parents, megabytes = {driver.service.process.pid}, [0.0]
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            status = (process / "status").read_text()
            command = (process / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines())
        if int(fields["PPid"]) in parents:
            parents.add(int(process.name))
            if "--type=renderer" in command and "--extension-process" not in command:
                megabytes.append(int(fields["VmRSS"].split()[0]) / 1000)
    return max(megabytes)


# --- what is measured ----------------------------------------------------------------------------


def times(driver: Any, text: Sequence[str], words: int, most: int, beam: int) -> dict:
    """Return the milliseconds of sentences of so many words, the full stop included."""
    sentences = [line for line in text if len(line.replace(".", " .").split()) == words][:most]
    if not sentences:
        raise UserError(f"--text: no sentence has {words} words; name another --words")
    translated(driver, sentences[:3], beam)  # the browser compiles what runs often
    milliseconds = sorted(answer["milliseconds"] for answer in translated(driver, sentences, beam))
    return {
        "sentences": len(milliseconds),
        "median": statistics.median(milliseconds),
        "95%": milliseconds[int(0.95 * (len(milliseconds) - 1))],
        "longest": milliseconds[-1],
    }


def agreement(
    answers: Sequence[dict], model: Translator, sentences: Sequence[str], beam: int
) -> dict:
    """Return how many of the page's translations are the model's, and how far weights differ."""
    expected = model.translate(sentences, beam)
    same, largest = [], 0.0
    for answer, translation in zip(answers, expected, strict=True):
        same.append(tuple(answer["tokens"]) == translation.tokens)
        if same[-1] and answer["weights"]:
            difference = np.abs(np.array(answer["weights"]) - translation.weights).max()
            largest = max(largest, float(difference))
    return {
        "same": sum(same),
        "largest difference of weights": largest,
        "texts": [translation.text for translation in expected],
    }


def quantise_matrices(model: Translator) -> None:
    """Give a model the weights that its page has."""
    for parameter in model.models[0].parameters():
        if parameter.dim() > 1:
            steps, scales = quantised(parameter.detach().numpy())
            parameter.data.copy_(parameter.new_tensor(steps * scales[:, None]))


def compare(driver: Any, args: argparse.Namespace, text: Sequence[str]) -> dict:
    """Compare the page with its checkpoint, unrounded and rounded."""
    sentences = text[: args.sentences]
    answers = translated(driver, sentences, args.beam)
    model = load(args.checkpoint, args.data, compute_dtype="float32")
    split = [model.source_text.tokens(sentence) for sentence in sentences]
    pairs = zip(sentences, split, answers, strict=True)
    differ = [sentence for sentence, tokens, answer in pairs
              if answer["sourcePieces"][:-1] != tokens]  # fmt: skip
    comparison = {"sentences": len(sentences), "tokens that differ": differ}
    comparison["float32"] = agreement(answers, model, sentences, args.beam)
    # anew, because kernels keep what they have packed
    model = load(args.checkpoint, args.data, compute_dtype="float32")
    quantise_matrices(model)
    comparison["rounded"] = agreement(answers, model, sentences, args.beam)
    if args.reference:
        reference = read_sentences(args.reference)[: len(sentences)]
        metric = sacrebleu.BLEU()
        for name, texts in {
            "page": [answer["text"] for answer in answers],
            "float32": comparison["float32"]["texts"],
        }.items():
            comparison[f"BLEU of {name}"] = metric.corpus_score(texts, [reference]).score
        comparison["signature"] = str(metric.get_signature())
    for name in ("float32", "rounded"):
        del comparison[name]["texts"]
    return comparison


def take_picture(driver: Any, address: str, drag: Sequence[int] | None, path: Path) -> None:
    """Keep what the page shows at an address when it has translated.

    Args:
        drag: a row of the matrix, and the columns from which and to which its weight is dragged.
    """
    driver.get("about:blank")
    driver.get(address)
    driver.set_window_size(WIDTH, WIDTH)
    wait(driver, "return /ms$/.test(document.getElementById('status').textContent)")
    if "step=" in address:
        wait(driver, "return !document.getElementById('glass').hidden")
    bring_into_sight(driver)
    if drag:
        row, start, end = drag
        drag_weight(driver, row, start, end)
        wait(driver, "return document.querySelector('.chip.changed')")
        bring_into_sight(driver)  # the new translation may be longer
    with replacing(path) as unfinished:
        unfinished.write_bytes(driver.get_screenshot_as_png())


def bring_into_sight(driver: Any) -> None:
    """Make the window as high as the page."""
    frame = "return outerHeight - innerHeight + document.documentElement.scrollHeight"
    driver.set_window_size(WIDTH, driver.execute_script(frame))


def drag_weight(driver: Any, row: int, start: int, end: int) -> None:
    """Do by the mouse what a reader does; rows and columns are counted from 0."""
    from selenium.webdriver.common.actions.action_builder import ActionBuilder

    left, top, width, height = driver.execute_script(
        "const {left, top, width, height} ="
        " document.querySelector('.matrix svg > rect').getBoundingClientRect();"
        "return [left, top, width, height]"
    )
    rows, columns = (
        len(driver.find_elements("css selector", f".label[data-side={side}]"))
        for side in ("target", "source")
    )
    actions = ActionBuilder(driver)
    for column, act in ((start, "pointer_down"), (end, "pointer_up")):
        x, y = left + (column + 0.5) * width / columns, top + (row + 0.5) * height / rows
        actions.pointer_action.move_to_location(round(x), round(y))
        getattr(actions.pointer_action, act)()
    actions.perform()


def wait(driver: Any, condition: str) -> None:
    for _ in range(300):
        if driver.execute_script(condition):
            return
        time.sleep(0.1)
    raise UserError("the page does not answer")


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and print what it has measured."""
    logging.disable(logging.INFO)  # selenium writes down every answer
    parser = OneLineParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument("--text", type=Path, required=True, help="sentences, one in a line")
    parser.add_argument("--reference", type=Path, help="their translations, for BLEU")
    parser.add_argument("--checkpoint", help="of the page, to be compared with it")
    parser.add_argument("--data", help="the data folder of the checkpoint")
    parser.add_argument("--words", type=int, default=12, help="of sentences that are timed")
    parser.add_argument("--timed", type=int, default=50, help="so many sentences are timed")
    parser.add_argument("--sentences", type=int, default=200, help="so many are compared")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="a screenshot, .png")
    parser.add_argument("--address", default="", help="what it shows, from # on")
    parser.add_argument(
        "--drag", type=int, nargs=3, metavar=("ROW", "FROM", "TO"),
        help="weight of the matrix that is dragged to another column first, counted from 0",
    )  # fmt: skip
    args = parser.parse_args(arguments)
    text = read_sentences(args.text)
    if not args.page.is_file():
        raise UserError(f"{args.page}: there is no such page")
    measured = {"machine": description(threads=1), "megabytes": args.page.stat().st_size / 1e6}
    with chromium() as driver:
        driver.get("about:blank")
        empty = resident(driver)
        driver.get(args.page.absolute().as_uri())
        driver.execute_async_script("rnnsearch.ready.then(arguments[0])")
        measured["milliseconds"] = times(driver, text, args.words, args.timed, args.beam)
        measured["memory"] = resident(driver) - empty
        if args.checkpoint:
            measured["agreement"] = compare(driver, args, text)
        if args.picture:
            address = args.page.absolute().as_uri() + args.address
            take_picture(driver, address, args.drag, args.picture)
    print(json.dumps(measured, indent=1, ensure_ascii=False))
    if args.json:
        write_text(args.json, json.dumps(measured, ensure_ascii=False))


if __name__ == "__main__":
    main()
