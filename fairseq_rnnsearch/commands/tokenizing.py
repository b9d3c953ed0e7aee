"""``rnnsearch-tokenize``: text as people write it to tokens for fairseq-preprocess, and back.

    rnnsearch-tokenize --out tokens --merges 8000 text/train.en text/train.fr text/valid.en ...
    rnnsearch-tokenize --language fr < text > tokens
    rnnsearch-tokenize --join --language fr < tokens > text

The suffixes of files are their languages. FOLDER gets a file of the same name for each, and
preprocessing.json, which says how they were made. ``fairseq-preprocess --trainpref FOLDER/train``
copies that to the data, so that models of this plugin take and write text as people write it.

Tokenizers: ``reversible`` restores the exact text; ``moses`` is that of most published results,
without XML escapes; ``words`` splits off punctuation and needs no package; ``character`` is for
text without spaces between words; ``space`` leaves text as it is. ``--merges`` splits words into
subwords (byte-pair encoding), with one set of merges for all languages, learned from the files that
are named train.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from tqdm import tqdm

from fairseq_rnnsearch.command_line import parser_of, program
from fairseq_rnnsearch.errors import UsageError, UserError
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.text import reversible
from fairseq_rnnsearch.text.corpus import is_language, lines_of
from fairseq_rnnsearch.text.plain_text import (
    FILE_NAME,
    PlainText,
    are_single_sentences,
    settings_of,
    write_settings,
)
from fairseq_rnnsearch.text.tokenizers import TOKENIZERS

_AS_TEXT = {"encoding": "utf-8", "newline": "\n"}  # whatever else Unicode calls a line break


def _convert(
    text: BinaryIO, name: str, out: TextIO, rules: PlainText, join: bool, bar: tqdm
) -> None:
    """Write each line as tokens, or joined to text.

    Args:
        name: what messages call the text.
        bar: is told how many bytes have been read.

    Raises:
        UserError: it is not text in UTF-8.
    """
    for content in lines_of(text, name):
        line = content.rstrip("\r\n")
        print(rules.text(line.split()) if join else " ".join(rules.tokens(line)), file=out)
        bar.update(len(content.encode()))


def _convert_files(
    files: Mapping[Path, Path], rules: Mapping[str, PlainText], join: bool = False
) -> None:
    """Write a new file for each, by the rules of its language."""
    total = sum(path.stat().st_size for path in files)
    # Without a terminal nothing is shown.
    with tqdm(total=total, unit="B", unit_scale=True, leave=False, disable=None) as bar:
        for path, new in files.items():
            with path.open("rb") as text, new.open("w", **_AS_TEXT) as file:
                _convert(text, str(path), file, rules[path.suffix[1:]], join, bar)


def has_parts(tokenizer: str) -> bool:
    """Tell whether new merges split the parts of words, see ``reversible.parts``."""
    return tokenizer == "reversible"


def learn_codes(training: Mapping[Path, bool], merges: int) -> str:
    """Learn merges of byte-pair encoding from tokenised text.

    Args:
        training: the files, and whether merges split the parts of their words.
    """
    from subword_nmt.learn_bpe import learn_bpe

    learned = io.StringIO()
    with contextlib.ExitStack() as stack:
        files = [
            map(_in_parts, file) if in_parts else file
            for path, in_parts in training.items()
            for file in [stack.enter_context(path.open(**_AS_TEXT))]
        ]
        if not sys.stderr.isatty():  # there its progress would be a line for each step
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        with contextlib.suppress(ValueError):  # without pieces, it asks for the most frequent one
            learn_bpe(chain.from_iterable(files), learned, merges)
    return learned.getvalue()


def _in_parts(line: str) -> str:
    """Return what merges are learned from: the parts of a line's words, without marks."""
    parts = chain.from_iterable(map(reversible.parts, line.split()))
    return " ".join(part for part in parts if reversible.ESCAPE not in part)


def _split_into_pieces(
    files: Mapping[Path, Path], codes: Path, rules: Mapping[str, PlainText], merges: int
) -> None:
    """Write subwords, and the merges that were learned for them."""
    with tempfile.TemporaryDirectory(dir=codes.parent) as folder:
        tokens = {path: Path(folder, path.name) for path in files}
        _convert_files(tokens, rules)
        training = {
            path: has_parts(rules[path.suffix[1:]].tokenizer)
            for path in tokens.values()
            if path.stem == "train"
        }
        codes.write_text(learn_codes(training, merges), encoding="utf-8")
        pieces = {
            language: PlainText(
                language,
                bpe_codes=None if text.tokenizer == "character" else codes,
                case_and_digits=has_parts(text.tokenizer),
            )
            for language, text in rules.items()
        }
        _convert_files(dict(zip(tokens.values(), files.values(), strict=True)), pieces)


def _described(
    options: argparse.Namespace, rules: Mapping[str, PlainText], codes: str
) -> dict[str, dict[str, Any]]:
    """Return the settings of all languages; those that were tokenised before keep theirs.

    Args:
        codes: the name of the file of merges.

    Raises:
        UserError: a file of the folder, which is not among those given, was made with other
            settings or, maybe, other merges.
    """
    before = settings_of(options.out)
    sides = dict(before)
    for language, text in rules.items():
        sides[language] = {"tokenizer": text.tokenizer, "lowercase": options.lowercase}
        if text.tokenizer == "moses":
            sides[language]["sacremoses"] = version("sacremoses")
        has_pieces = options.merges and text.tokenizer != "character"
        sides[language]["bpe_codes"] = codes if has_pieces else None
        if has_pieces and has_parts(text.tokenizer):
            sides[language]["case_and_digits"] = True
        given = {path.name for path in options.files}
        known = before.get(language, sides[language])
        differs = any(known.get(name) != value for name, value in sides[language].items())
        stays = sorted({path.name for path in options.out.glob(f"*.{language}")} - given)
        if stays and language in before and (differs or has_pieces):
            raise UserError(
                f"{options.out / stays[0]} was created with other settings: include {stays[0]} as"
                " well, or name another --out"
            )
        single = before.get(language, {}).get("single_sentences", False)
        for path in options.files:
            if path.name == f"train.{language}":
                with path.open("rb") as lines:
                    single = are_single_sentences(lines_of(lines, str(path)))
        sides[language]["single_sentences"] = single
    return sides


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = parser_of("rnnsearch-tokenize", __doc__)
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        help="text files, one sentence per line (default: standard input)",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the tokenised files")
    parser.add_argument("--language", help="language of standard input")
    parser.add_argument("--join", action="store_true", help="join tokens to text")
    parser.add_argument(
        "--tokenizer", choices=TOKENIZERS, default="reversible", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--tokenizer-of",
        action="append",
        default=[],
        metavar="LANGUAGE=TOKENIZER",
        help="tokenizer for one language, such as zh=character",
    )
    parser.add_argument("--lowercase", action="store_true", help="lower-case the tokens")
    parser.add_argument(
        "--merges",
        type=int,
        metavar="N",
        help="learn N merges of byte-pair encoding, and split words into subwords",
    )
    options = parser.parse_intermixed_args(arguments)
    if bool(options.files) != bool(options.out) or bool(options.files) == bool(options.language):
        parser.error("give files with --out FOLDER, or --language and standard input")
    _check_files(options)
    return options


def _check_files(options: argparse.Namespace) -> None:
    """Check that all files can be converted, each to one of its own.

    Raises:
        UserError: if not.
    """
    names = [path.name for path in options.files]
    for path in options.files:
        if path.name == FILE_NAME or not is_language(path.suffix[1:]):
            raise UserError(f"{path}: its suffix must be its language, such as {path.stem}.en")
        if names.count(path.name) > 1:
            raise UsageError(
                f"two files are named {path.name}: --out {options.out} has room for one"
            )
        if (options.out / path.name).resolve() == path.resolve():
            raise UsageError(f"--out {options.out} is where the files are: name another folder")
    if options.merges and not any(path.stem == "train" for path in options.files):
        raise UsageError("--merges learns from the training text: name a file train.LANGUAGE")


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = _read_options(arguments)
    languages = {path.suffix[1:] for path in options.files} or {options.language}
    tokenizers = dict(given.partition("=")[::2] for given in options.tokenizer_of)
    if unused := tokenizers.keys() - languages:
        raise UsageError(f"--tokenizer-of {min(unused)}=...: there is no text of this language")
    rules = {
        one: PlainText(one, tokenizers.get(one, options.tokenizer), options.lowercase)
        for one in sorted(languages)
    }
    if not options.files:
        sys.stdout.reconfigure(**_AS_TEXT)
        [text], bar = rules.values(), tqdm(disable=True)
        _convert(sys.stdin.buffer, "standard input", sys.stdout, text, options.join, bar)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    # its name has the languages, so that those that are split later do not overwrite it
    codes = "-".join(["codes", *rules])
    described = {} if options.join else _described(options, rules, codes)
    with contextlib.ExitStack() as stack:  # all files get their place together

        def begun(name: str) -> Path:
            return stack.enter_context(replacing(options.out / name))

        files = {path: begun(path.name) for path in options.files}
        if options.merges:
            _split_into_pieces(files, begun(codes), rules, options.merges)
        else:
            _convert_files(files, rules, options.join)
    if not options.join:
        write_settings(options.out, described)


if __name__ == "__main__":
    main()
