"""Subwords of a training's text (BPE), and copies of it that BPE-dropout has split."""

import random
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import compress, product
from pathlib import Path

from fairseq_rnnsearch.train.pairs import PARTS
from fairseq_rnnsearch.train.settings import Settings
from fairseq_rnnsearch.train.steps import end_at_once


def make_subwords(
    tokens: Path,
    out: Path,
    languages: Sequence[str],
    with_codes: Sequence[str],
    s: Settings,
    model: Path | None = None,
) -> None:
    """Learn merges from the training text, and split all parts of the text by them.

    With BPE-dropout, the training text that is split whole and all copies stand one after the
    other in ``train``, and each in a file of its own, ``train-0`` being the whole one.

    Args:
        tokens: the folder of the text's words.
        out: the folder to make.
        with_codes: those of the languages that have merges.
        model: the folder of a model whose merges and settings these are, instead of new ones.
    """
    # subword-nmt is imported here: a work folder is checked without it
    from fairseq_rnnsearch.commands.tokenizing import has_parts, learn_codes
    from fairseq_rnnsearch.text.plain_text import settings_of, write_settings

    out.mkdir()
    described = settings_of(model or tokens)
    for language in with_codes:
        described[language]["bpe_codes"] = f"codes.{language}"
        if model:
            shutil.copyfile(model / f"codes.{language}", out / f"codes.{language}")
        else:
            described[language]["case_and_digits"] = has_parts(described[language]["tokenizer"])
    groups = [with_codes] if s.bpe_joint else [[language] for language in with_codes]
    for shared in () if model else filter(None, groups):
        in_parts = {tokens / f"train.{one}": described[one]["case_and_digits"] for one in shared}
        learned = learn_codes(in_parts, s.bpe_merges)
        for language in shared:
            (out / f"codes.{language}").write_text(learned, encoding="utf-8", newline="\n")
    print("  merges copied" if model else "  merges learned", flush=True)
    copies = range(s.bpe_copies + 1 if s.bpe_dropout else 0)  # in the first no merge is left out
    parts = [*PARTS[1:], *(f"train-{copy}" for copy in copies)] if copies else PARTS
    texts = [
        (
            *(tokens / f"{part.partition('-')[0]}.{language}", out / f"{part}.{language}"),
            out / f"codes.{language}" if language in with_codes else None,
            described[language].get("case_and_digits", False),
            s.bpe_dropout,
            int(part.partition("-")[2] or 0),
        )
        for language, part in product(languages, parts)
    ]
    with ProcessPoolExecutor(initializer=end_at_once) as pool:  # a process for each core
        list(pool.map(_segment, *zip(*texts, strict=True)))
    for language in languages if copies else ():
        with (out / f"train.{language}").open("wb") as file:
            for copy in copies:
                file.write((out / f"train-{copy}.{language}").read_bytes())
    if s.bpe_dropout and s.longest:
        _leave_out_long(out, languages, s)
    write_settings(out, described)


def _leave_out_long(out: Path, languages: Sequence[str], s: Settings) -> None:
    """Leave pairs out of each copy that are too long even if no merge is left out.

    The others stay, however many pieces BPE-dropout makes of them.
    """
    sides = [(out / f"train-0.{language}").read_bytes().splitlines() for language in languages]
    pairs = zip(*sides, strict=True)
    kept = [max(len(side.split()) for side in pair) <= s.longest for pair in pairs]
    left_out = f"{kept.count(False)} of {len(kept)} pairs, longer than --longest {s.longest} pieces"
    print(f"  left out of training: {left_out}", flush=True)
    for copy, language in product(range(s.bpe_copies + 1), languages if any(kept) else ()):
        path = out / f"train-{copy}.{language}"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(compress(lines, kept)))


def _segment(
    text: Path, out: Path, codes: Path | None, case_and_digits: bool, dropout: float, seed: int
) -> None:
    """Split the words of a text into subwords, or copy it where it has no codes.

    Args:
        seed: of BPE-dropout; 0: no merge is left out.
    """
    if codes is None:
        shutil.copyfile(text, out)
        return
    from fairseq_rnnsearch.text.plain_text import segmenter

    random.seed(seed)  # which subword-nmt draws from
    pieces = segmenter(codes, case_and_digits, dropout if seed else 0)
    with (
        text.open(encoding="utf-8", newline="\n") as lines,
        out.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for line in lines:
            print(*pieces(line.removesuffix("\n").split(" ")), file=file)
