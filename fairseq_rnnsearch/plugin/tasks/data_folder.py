"""The contents of a fairseq-preprocess folder: languages, dictionaries and subsets.

If they do not match the options, fairseq silently takes another language pair, or none.
"""

import os
from pathlib import Path

from fairseq import utils
from fairseq.data import data_utils
from fairseq.data.indexed_dataset import dataset_exists
from fairseq.tasks.translation import TranslationConfig

from fairseq_rnnsearch.data import compatibility
from fairseq_rnnsearch.data.dictionary_file import read_dictionary
from fairseq_rnnsearch.errors import UserError


def check_languages(folder: str, source: str | None, target: str | None) -> tuple[str, str]:
    """Check that a folder has the data and the dictionaries of a language pair, and return it.

    Args:
        source, target: languages as given; None: those in the file names.

    Raises:
        UserError: if there is no such folder, or it lacks this language pair.
    """
    if not os.path.isdir(folder):
        raise UserError(f"no data folder {folder!r}: make it with fairseq-preprocess")
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
    for language in languages:
        if not os.path.exists(os.path.join(folder, f"dict.{language}.txt")):
            dictionaries = sorted(path.name for path in Path(folder).glob("dict.*.txt"))
            raise UserError(
                f"no dictionary dict.{language}.txt in the data folder {folder!r}, which has "
                f"{' and '.join(dictionaries) or 'none'}"
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
        dictionaries = (
            read_dictionary(Path(folder) / f"dict.{language}.txt") for language in languages
        )
        sides = dict(zip(("source", "target"), dictionaries, strict=True))
        described[folder] = compatibility.describe(sides, languages, Path(folder))
        compatibility.check(described[folders[0]], described[folder], folders[0], f"{folder} has")


def check_subset(folder: Path, subset: str, source: str, target: str, kind: str | None) -> None:
    """Check that a folder has a subset.

    Args:
        kind: the value of ``--dataset-impl``, or None.

    Raises:
        UserError: naming the folder's subsets, if fairseq cannot read this one.
    """
    pairs = (f".{source}-{target}.", f".{target}-{source}.")

    def exists(name: str) -> bool:
        return any(dataset_exists(str(folder / f"{name}{pair}{source}"), kind) for pair in pairs)

    if exists(subset):
        return
    names = {path.name.partition(pair)[0] for pair in pairs for path in folder.glob(f"*{pair}*")}
    present = ", ".join(filter(exists, sorted(names))) or "none"
    is_raw = any((folder / f"{subset}{pair}{source}").exists() for pair in pairs)
    advice = "; it is there as text: give --dataset-impl raw" if is_raw and kind != "raw" else ""
    as_kind = f" that --dataset-impl {kind} reads" if kind else ""
    raise UserError(
        f"no subset {subset!r} of {source}-{target} data{as_kind} in {folder}; "
        f"its subsets: {present}{advice}"
    )
