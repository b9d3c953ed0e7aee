"""``fairseq-preprocess`` on text files that are not what they seem."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from fairseq_rnnsearch.data.checksums import write_checksums
from fairseq_rnnsearch.data.corpus import check_parallel, check_text
from fairseq_rnnsearch.errors import UserError


def check_and_preprocess(main: Callable, options: Namespace) -> None:
    """Check the text files before fairseq-preprocess writes anything.

    It binarises sides with different line counts without a word, splits lines at stray carriage
    returns and dies unintelligibly of bytes that are not UTF-8.
    """
    _check_dictionaries(options)
    _check_text(options)
    main(options)
    if options.dataset_impl != "raw":
        write_checksums(Path(options.destdir))


def _check_text(options: Namespace) -> None:
    """Refuse text files that are not what they seem.

    Raises:
        UserError: as ``check_text`` and ``check_parallel``.
    """
    languages = [options.source_lang] + [options.target_lang] * (not options.only_source)
    given = (options.trainpref, options.validpref, options.testpref)
    prefixes = dict.fromkeys(prefix for some in given if some for prefix in some.split(","))
    for prefix in prefixes:
        files = [Path(f"{prefix}.{language}") for language in languages]
        if len(files) == 2:
            check_parallel(*files)
        else:
            check_text(*files)


def _check_dictionaries(options: Namespace) -> None:
    """Refuse what fairseq-preprocess asserts after it has made its folder, or not at all.

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
