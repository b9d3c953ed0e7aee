"""The languages and dictionaries of fairseq-preprocess's folders.

If they do not match the options, fairseq silently takes another language pair, or none.
"""

import os
from pathlib import Path

from fairseq import utils
from fairseq.data import data_utils
from fairseq.tasks.translation import TranslationConfig

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text import compatibility
from fairseq_rnnsearch.text.dictionary_file import read_dictionary


def check_languages(folder: str, source: str | None, target: str | None) -> tuple[str, str]:
    """Check that a folder has the data of a language pair, and return it.

    Args:
        source, target: languages as given; None: those in the file names.

    Raises:
        UserError: if it lacks this language pair.
    """
    given = languages = (source, target)
    if None in given:
        languages = data_utils.infer_language_pair(folder)
    if None in languages:
        raise UserError(
            f"no data named like train.en-fr.en.bin in {folder!r}: name the languages with "
            "--source-lang and --target-lang"
        )
    for option, ours, present in zip(("source", "target"), given, languages, strict=True):
        if ours not in (None, present):  # fairseq would ignore it
            raise UserError(
                f"--{option}-lang {ours}: the data in {folder!r} are {'-'.join(languages)}; "
                "name both --source-lang and --target-lang for others"
            )
    return languages


def check_folders(cfg: TranslationConfig) -> None:
    """Check that all data folders number the same words, of text that was prepared alike.

    Raises:
        UserError: naming the first folder and the one that differs from it.
    """
    folders = list(dict.fromkeys(utils.split_paths(cfg.data)))
    described = {}
    for folder in folders[:1] + list(filter(os.path.isdir, folders[1:])):
        languages = check_languages(folder, cfg.source_lang, cfg.target_lang)
        sides = {
            side: read_dictionary(Path(folder) / f"dict.{language}.txt")
            for side, language in zip(("source", "target"), languages, strict=True)
        }
        described[folder] = compatibility.describe(sides, languages, Path(folder))
        compatibility.check(described[folders[0]], described[folder], folders[0], f"{folder} has")
