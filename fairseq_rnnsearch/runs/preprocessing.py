"""``fairseq-preprocess`` with checked text files.

fairseq binarises sides with different line counts silently, splits lines at stray carriage returns,
and fails unintelligibly on bytes that are not UTF-8.
"""

import functools
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from fairseq_rnnsearch.text.checksums import listed_files, write_checksums
from fairseq_rnnsearch.text.compatibility import check, describe
from fairseq_rnnsearch.text.corpus import check_parallel, check_text
from fairseq_rnnsearch.text.plain_text import FILE_NAME, settings_of


def check_and_preprocess(main: Callable[[Namespace], None], options: Namespace) -> None:
    """Check all text before anything is made of it; write checksums of what is made.

    It also copies what rnnsearch-tokenize wrote about the text.

    Args:
        main: fairseq's function, which does all the work.

    Raises:
        UserError: as ``check_text`` and ``check_parallel``.
    """
    if options.dict_only:
        main(options)
        return
    languages = _languages(options)
    for prefix in _prefixes(options):
        files = [Path(prefix if name is None else f"{prefix}.{name}") for name in languages]
        (check_parallel if len(files) == 2 else check_text)(*files)
    _check_descriptions(options)
    before = listed_files(Path(options.destdir))
    main(options)
    _copy_description(options)
    write_checksums(Path(options.destdir), before)


def avoid_int32_overflow(
    finalize: Callable[[MMapIndexedDatasetBuilder, str], None],
) -> Callable[[MMapIndexedDatasetBuilder, str], None]:
    """Let fairseq add sentences' sizes to places without the limit of 32 bits."""

    @functools.wraps(finalize)
    def finalized(builder: MMapIndexedDatasetBuilder, index_file: str) -> None:
        builder._sizes = list(map(int, builder._sizes))  # those of other processes are NumPy's
        finalize(builder, index_file)

    return finalized


def _check_descriptions(options: Namespace) -> None:
    """Check that all text was prepared alike, also the training text that is there already.

    Raises:
        UserError: naming the first folder that differs.
    """
    folders = [Path(prefix).parent for prefix in _prefixes(options)]
    data = Path(options.destdir)
    if not options.trainpref and (data / FILE_NAME).exists():
        folders = [data, *(folder for folder in folders if (folder / FILE_NAME).exists())]
    for folder in folders[1:]:
        first, other = (describe({}, _languages(options), one) for one in (folders[0], folder))
        check(first, other, str(folders[0]), f"{folder} has")


def _copy_description(options: Namespace) -> None:
    """Copy preprocessing.json, and the BPE codes that it names, from the text to the data.

    Those of earlier training text go.
    """
    prefixes, data = _prefixes(options), Path(options.destdir)
    text = Path(prefixes[0]).parent if prefixes else data
    if text.resolve() == data.resolve():
        return
    if options.trainpref:
        (data / FILE_NAME).unlink(missing_ok=True)
    if (text / FILE_NAME).exists():
        codes = {settings.get("bpe_codes") for settings in settings_of(text).values()}
        for name in (*filter(None, codes), FILE_NAME):
            shutil.copy(text / name, data / name)


def _prefixes(options: Namespace) -> list[str]:
    given = (options.trainpref, options.validpref, options.testpref)
    return list(dict.fromkeys(prefix for some in given if some for prefix in some.split(",")))


def _languages(options: Namespace) -> list[str | None]:
    """Return the languages of the files; text of --only-source may have None."""
    return [options.source_lang] + [options.target_lang] * (not options.only_source)
