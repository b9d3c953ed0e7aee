"""``fairseq-preprocess`` on text files that are not what they seem."""

import functools
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from fairseq_rnnsearch.compat.evaluated_options import fairseq_modules
from fairseq_rnnsearch.data.checksums import write_checksums
from fairseq_rnnsearch.data.corpus import check_parallel, check_text
from fairseq_rnnsearch.errors import UserError


def check_text_before_preprocessing() -> None:
    """Check the text files before fairseq-preprocess writes anything.

    It binarises sides with different line counts without a word, splits lines at stray carriage
    returns and dies unintelligibly of bytes that are not UTF-8.
    """
    preprocess = dict(fairseq_modules()).get("fairseq_cli.preprocess")
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
    def checked_main(options) -> None:
        _check_dictionaries(options)
        main(options)
        if options.dataset_impl != "raw":
            write_checksums(Path(options.destdir))

    preprocess.main = checked_main
    preprocess._build_dictionary = checked(2, preprocess._build_dictionary)
    preprocess._make_all = checked(2, preprocess._make_all)


def _check_dictionaries(options: Namespace) -> None:
    """What fairseq-preprocess asserts after it has made its folder, or not at all.

    Raises:
        UserError: unnamed languages, dictionaries that cannot be made, or that exist already.
    """
    sides = {"src": options.source_lang, "tgt": options.target_lang}
    if options.only_source:
        del sides["tgt"]
    if None in sides.values():
        raise UserError("--source-lang and --target-lang name the languages: both are needed")
    given = {side for side in sides if getattr(options, f"{side}dict")}
    if options.joined_dictionary and len(given) == 2:
        raise UserError("--joined-dictionary takes one of --srcdict and --tgtdict, not both")
    for side, language in sides.items():
        made = Path(options.destdir, f"dict.{language}.txt")
        if side not in given and made.exists():
            raise UserError(
                f"{made} exists already: name another --destdir, remove it, or give --{side}dict"
            )
        if not (options.trainpref or side in given or (options.joined_dictionary and given)):
            raise UserError(
                f"nothing to make the {language!r} dictionary of: give --trainpref or --{side}dict"
            )
