"""``fairseq-preprocess`` on text files that are not what they seem."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path

from fairseq_rnnsearch.data.checksums import write_checksums
from fairseq_rnnsearch.data.corpus import check_parallel, check_text


def check_text_before_preprocessing() -> None:
    """Check the text files before fairseq-preprocess writes anything.

    It binarises sides with different line counts without a word, splits lines at stray carriage
    returns and dies unintelligibly of bytes that are not UTF-8.
    """
    preprocess = sys.modules.get("fairseq_cli.preprocess")
    if preprocess is None:
        return

    @functools.cache
    def check_all(*prefixes: str, languages: tuple[str, ...]) -> None:
        for prefix in prefixes:
            files = [Path(f"{prefix}.{language}") for language in languages]
            if len(files) == 2:
                check_parallel(*files)
            else:
                check_text(*files)

    def checked(position: int, function: Callable) -> Callable:
        @functools.wraps(function)
        def check_first(*args, **kwargs) -> object:
            options = kwargs.get("args") or args[position]
            prefixes = [options.trainpref, options.validpref, options.testpref]
            check_all(
                *[prefix for given in prefixes if given for prefix in given.split(",")],
                languages=tuple(
                    [options.source_lang] + [options.target_lang] * (not options.only_source)
                ),
            )
            return function(*args, **kwargs)

        return check_first

    main = preprocess.main

    @functools.wraps(main)
    def main_with_checksums(options) -> None:
        main(options)
        if options.dataset_impl != "raw":
            write_checksums(Path(options.destdir))

    preprocess.main = main_with_checksums
    preprocess._build_dictionary = checked(2, preprocess._build_dictionary)
    preprocess._make_all = checked(2, preprocess._make_all)
