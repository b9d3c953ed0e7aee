"""``fairseq-preprocess`` with checked text files.

fairseq binarises sides with different line counts silently, splits lines at stray carriage returns,
and fails unintelligibly on bytes that are not UTF-8.
"""

import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from fairseq.data import Dictionary

from fairseq_rnnsearch.data.checksums import listed_files, write_checksums
from fairseq_rnnsearch.data.corpus import check_parallel, check_text
from fairseq_rnnsearch.data.plain_text import FILE_NAME, settings_of
from fairseq_rnnsearch.errors import UserError


def check_and_make_all(
    make_all: Callable[[str, Dictionary, Namespace], None],
    language: str,
    dictionary: Dictionary,
    options: Namespace,
) -> None:
    """Check all text before the first side is binarised; write checksums after each.

    What rnnsearch-tokenize wrote about the text comes along.

    fairseq has written the dictionaries by then. If the text is refused, this command's
    dictionaries are removed, so that it can be repeated.

    Args:
        make_all: fairseq's function, which binarises one side.

    Raises:
        UserError: as ``check_text`` and ``check_parallel``.
    """
    if language == options.source_lang:
        try:
            _check_text(options)
        except UserError:
            for side in ("src", "tgt"):
                name = options.source_lang if side == "src" else options.target_lang
                if not getattr(options, f"{side}dict"):
                    Path(options.destdir, f"dict.{name}.txt").unlink(missing_ok=True)
            raise
        _copy_description(options)
    folder = Path(options.destdir)
    before = listed_files(folder)
    make_all(language, dictionary, options)
    if options.dataset_impl != "raw":
        write_checksums(folder, before)


def _copy_description(options: Namespace) -> None:
    """Copy preprocessing.json, and the BPE codes that it names, from the text to the data."""
    text, data = Path(options.trainpref or "").parent, Path(options.destdir)
    if not (text / FILE_NAME).exists() or (data / FILE_NAME).exists():
        return
    codes = {settings.get("bpe_codes") for settings in settings_of(text).values()}
    for name in (*filter(None, codes), FILE_NAME):
        shutil.copy(text / name, data / name)


def _check_text(options: Namespace) -> None:
    languages = [options.source_lang] + [options.target_lang] * (not options.only_source)
    if None in languages:
        raise UserError("--source-lang and --target-lang name the languages: both are needed")
    given = (options.trainpref, options.validpref, options.testpref)
    prefixes = dict.fromkeys(prefix for some in given if some for prefix in some.split(","))
    for prefix in prefixes:
        files = [Path(f"{prefix}.{language}") for language in languages]
        if len(files) == 2:
            check_parallel(*files)
        else:
            check_text(*files)
