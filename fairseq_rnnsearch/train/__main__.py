"""``rnnsearch-train``: from sentence pairs to a trained model, translations, scores and heatmaps.

    rnnsearch-train --source corpus.en --target corpus.fr --work my-model
    rnnsearch-train --pairs corpus.tsv --languages en,fr --dry-run
    rnnsearch-train --from en-fr --pairs corpus.tsv --work my-model

Each line of --target translates the same line of --source, and the suffixes of the files are the
languages, unless --languages names them. Or each line of --pairs has a sentence, a tab, and its
translation. Files may be compressed with gzip, bzip2 or xz. --dry-run checks all that is given and
says what would be done, and how much time, disk and memory it takes.

The size of the model, the subwords and the training follow from the number of pairs: the defaults
below are for 100,000, and the manual's page train.md has a table. Each can be set instead.
--from goes on training a model, such as the package's en-fr, with its own subwords and sizes.
English to French, 10,000 pairs of everyday sentences gave 24.6 BLEU on their test, 151,821 pairs
39.5, and 29,000 captions of photographs, which are alike, 60.7 (recipes/RESULTS.md).
Text without spaces between words, such as Chinese, Japanese and Thai, needs --tokenizer character.
If it is interrupted, start the same command again, or with --finish to end the training with what
it has. --dry-run then says what is left. Afterwards rnnsearch-translate, rnnsearch-align and
rnnsearch-export take the folder.
"""

import argparse
import dataclasses
import hashlib
import importlib
import itertools
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from fairseq_rnnsearch.command_line import parser_of, program
from fairseq_rnnsearch.errors import UsageError, option_of
from fairseq_rnnsearch.models.find import PARAMETERS
from fairseq_rnnsearch.models.quality import saved_updates
from fairseq_rnnsearch.text import checksums
from fairseq_rnnsearch.text.corpus import check_parallel, checked_lines, is_language
from fairseq_rnnsearch.text.lengths import warning_of
from fairseq_rnnsearch.train import progress
from fairseq_rnnsearch.train.pairs import PARTS, Parts, read_parts, write_parts
from fairseq_rnnsearch.train.settings import (
    FIELDS,
    OF_SIDES,
    Settings,
    add_options,
    as_argument,
    for_corpus,
    for_model,
    given_in,
    groups,
    in_environment,
    variable,
)
from fairseq_rnnsearch.train.stages import Training
from fairseq_rnnsearch.train.steps import Step, Work, log

_PACKAGE = Path(__file__).resolve().parents[1]
_STAGES = ("text", "training", "translation")
_PACKED = "gz|bz2|xz|lzma|zip|tar|tgz|7z|rar|zst|lz4|Z"  # some are named only to be refused
_SUFFIX = re.compile(rf"\.([^.]*?)(?:\.txt)?(?:\.(?:{_PACKED}))*$")


@program
def main(
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path = Path(),
) -> None:
    """Run the command.

    Args:
        environment: also has settings, such as HIDDEN for ``--hidden``.
        folder: where the default work folder is made.

    Raises:
        UserError: for every mistake in options or files; shown as one line when nobody catches it.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    origin = None
    if options.from_model:  # a plain --dry-run needs no package
        from fairseq_rnnsearch.train.from_model import Continuation, read_origin

        origin = read_origin(options.from_model)
    languages = _languages(options, origin and origin.config.languages)
    if environment is not None:  # the command line goes before a recipe's variables
        of_recipe = in_environment(environment, languages)
        options = parser.parse_args([*of_recipe, *(arguments or ())])
    if origin:  # its text is in the new model too
        options.licence = "; ".join(filter(None, (origin.config.licence, options.licence)))
        options.mix = options.mix or (None if options.corpus else origin.pairs)
    given = given_in(options)
    own = folder / "-".join(("own", *languages, Settings(**given).model))
    work = Work(options.work or Path((environment or {}).get("WORK") or own))
    if options.longest is None and (longest := work.remembered().get("LONGEST")):
        given["longest"] = int(longest)  # an older version had another default for characters
    if options.corpus:
        parts = None
        for part in PARTS:
            files = [options.corpus / f"{part}.{language}" for language in languages]
            check_parallel(*files, has_symbols=True)  # which most tokenizers take apart
            sides = (map(len, map(str.strip, checked_lines(file, True))) for file in files)
            if warning := warning_of(f"{files[0]} and {files[1]}", zip(*sides, strict=True)):
                log(warning)
    else:
        log(f"reading {options.pairs or f'{options.source} and {options.target}'}")
        parts = read_parts(options, languages, given.get("seed", 1))
    settings = (
        for_model(given, parts and parts.pairs, origin.settings) if origin
        else for_corpus(given, parts.pairs) if parts
        else Settings(**given)
    )  # fmt: skip
    if parts:
        sizes = parts.pairs, len(parts.splits["train"]), len(parts.splits["test"])
        done = saved_updates(work.folder)
        for line in progress.plan(work.folder, settings, parts.texts, *sizes, done):
            log(line)
        if settings.longest:
            log(progress.too_long(settings, parts.splits["train"]))
    text = {
        "digest of the text": _digest(parts, options, languages),
        "FROM": checksums.digest(origin.folder / PARAMETERS)[:12] if origin else "",
    }
    if parts:  # the digest does not tell where train, valid and test begin
        sizes = (str(len(parts.splits[part])) for part in PARTS)
        text[f"pairs of {', '.join(PARTS)}"] = " ".join(sizes)
    remembered = _remembered(settings, languages) | text
    # what was typed comes first: from it, or from the text, other settings follow
    names = {variable(name, languages): option_of(name) for name in FIELDS}
    names |= {"digest of the text": "text with the digest", "FROM": "--from with the digest"}
    first = [variable(name, languages) for name in given if variable(name, languages) in remembered]
    ordered = {name: remembered[name] for name in first} | text | remembered
    work.check(ordered, names if environment is None else None)
    corpus = (options.corpus or work.folder / "corpus").absolute()
    what = work, settings, languages, corpus, options.user_dir.absolute()
    training = Continuation(*what, origin.folder) if origin else Training(*what)
    training.models()  # those of an ensemble are there
    if options.finish and not saved_updates(work.folder):
        raise UsageError(f"--finish: {work.folder} has no training with a checkpoint")
    if options.dry_run:
        if work.has_begun:
            steps = [*_steps(training, options), *_pages(training, options)]
            left = ", ".join(step.name for step in steps if not work.is_done(step))
            updates = f"update {saved_updates(work.folder)} of {settings.updates}"
            log(f"it has come to {updates}; left to do: {left or 'nothing'}")
        log("nothing was done (--dry-run)")
        return
    # Fails here if fairseq is missing, not after the subwords were learned.
    importlib.import_module("fairseq_cli")
    with work.locked():
        work.remember(remembered)
        log(f"working in {work.folder}")
        if parts:
            lay_out = partial(write_parts, parts, languages)
            work.do(Step("lay out the corpus", lay_out, corpus))
            parts.splits.clear()  # their memory
        _go_on(training, options)


def _go_on(training: Training, options: argparse.Namespace) -> None:
    """Do all steps that follow the corpus, or those up to ``--stop-after``."""
    for step in _steps(training, options):
        training.work.do(step)
    if options.stop_after:
        return
    training.work.link("checkpoint_best.pt", training.trained)  # load() of the folder takes it
    training.work.link("translations", training.translations)
    training.report()
    if options.from_model:
        print(f"the model as a folder: {training.write_model(options.licence)}")
    for step in (pages := _pages(training, options)):
        training.work.do(step)
    if pages:
        print(f"a page that translates, for any browser: {training.page}")
    else:
        print("no page that translates: a page cannot split text by Moses' rules")


def _steps(training: Training, options: argparse.Namespace) -> list[Step]:
    """Return the steps from the corpus to the translations, or those up to ``--stop-after``."""
    stages = training.prepare_text(), training.train(options.finish), training.translate()
    last = _STAGES.index(options.stop_after) if options.stop_after else len(stages)
    return list(itertools.chain.from_iterable(stages[: last + 1]))


def _pages(training: Training, options: argparse.Namespace) -> list[Step]:
    """Return the step that makes the page, if there is to be one."""
    if options.stop_after or "moses" in training.settings.tokenizers:
        return []
    title = options.title or f"{training.settings.model}, {' to '.join(training.languages)}"
    return [training.make_page(title, options.licence)]


def _languages(options: argparse.Namespace, of_model: tuple[str, str] | None) -> tuple[str, str]:
    """Return the languages with underscores: fairseq would take a hyphen for the source's end.

    Args:
        of_model: those of the model to go on with.

    Raises:
        UsageError: options do not go together, or name no two languages.
    """
    texts = [options.pairs, options.corpus, options.source and options.target]
    if sum(map(bool, texts)) != 1 or bool(options.source) != bool(options.target):
        raise UsageError(
            "--source and --target name the two text files, or --pairs one of two columns, or"
            " --corpus a folder"
        )
    if options.corpus and (options.valid or options.test or options.mix):
        raise UsageError("--valid, --test and --mix go without --corpus, which has its own text")
    files = [options.source, options.target] if options.source else []
    names = [suffix[1] for file in files if (suffix := _SUFFIX.search(file.name))]
    if options.languages or not files:
        names = options.languages.split(",") if options.languages else of_model or ()
    languages = tuple(name.strip().replace("-", "_") for name in names)
    if len(set(languages)) != 2 or len(languages) != 2 or not all(map(is_language, languages)):
        raise UsageError(
            "--languages, or the suffixes of the files, must name two languages, such as en and"
            " pt-BR"
        )
    if of_model not in (None, languages):
        raise UsageError(f"--from {options.from_model} translates {' to '.join(of_model)}")
    return languages


def _remembered(settings: Settings, languages: tuple[str, str]) -> dict[str, str]:
    """Return what cannot be changed in a work folder, besides the text."""
    of_sides = dict(zip(OF_SIDES, settings.tokenizers, strict=True))
    return {
        variable(name, languages): " ".join(as_argument(value).split())
        for name, value in (dataclasses.asdict(settings) | of_sides).items()
        if name not in groups()["translation"]
    }


def _digest(parts: Parts | None, options: argparse.Namespace, languages: tuple[str, str]) -> str:
    """Return a digest of the text, to notice files that were changed meanwhile."""
    digest = hashlib.sha256()
    if parts:
        for pair in itertools.chain.from_iterable(parts.splits.values()):
            digest.update("\t".join(pair).encode() + b"\n")
    else:
        for part, language in itertools.product(PARTS, languages):
            of_file = checksums.digest(options.corpus / f"{part}.{language}")
            digest.update(bytes.fromhex(of_file))
    return digest.hexdigest()[:12]


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-train", __doc__)
    text = parser.add_argument_group("pairs")
    text.add_argument("--source", type=Path, metavar="FILE", help="sentences, one per line")
    text.add_argument("--target", type=Path, metavar="FILE", help="their translations")
    text.add_argument("--pairs", type=Path, metavar="FILE", help="both, with a tab in between")
    text.add_argument(
        "--languages", metavar="SOURCE,TARGET", help="such as en,fr (default: the suffixes)"
    )
    held_out = "text, such as PREFIX.en and PREFIX.fr (default: pairs are held out)"
    text.add_argument("--valid", metavar="PREFIX", help=f"validation {held_out}")
    text.add_argument("--test", metavar="PREFIX", help=f"test {held_out}")
    text.add_argument(
        "--corpus", type=Path, metavar="FOLDER",
        help="instead of all these: a folder with train, valid and test of both languages, such as"
        " train.en, which are taken as they are; no setting follows from their size",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="from_model", metavar="MODEL",
        help="go on training this model, such as en-fr, with its languages, tokens and sizes",
    )  # fmt: skip
    parser.add_argument(
        "--mix", type=Path, metavar="FILE",
        help="pairs that are trained on as well, so that a model does not forget them (default with"
        " --from: pairs.tsv.gz of the model's folder, some that it was trained on before)",
    )  # fmt: skip
    parser.add_argument(
        "--work", type=Path, metavar="FOLDER",
        help="for everything that is made (default: own-en-fr-rnnsearch, for example)",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, say what it takes, and stop"
    )
    parser.add_argument(
        "--finish", action="store_true",
        help="end a training that has begun: translate with the checkpoints that it has",
    )  # fmt: skip
    parser.add_argument("--stop-after", choices=_STAGES, help="stop after this stage")
    parser.add_argument("--title", default="", help="title of the page that translates")
    parser.add_argument(
        "--licence", default="", metavar="TEXT", help="licence of the data, shown on the page"
    )
    parser.add_argument(
        "--user-dir", type=Path, metavar="FOLDER", default=_PACKAGE,
        help="another plugin of fairseq, which imports this one",
    )  # fmt: skip
    add_options(parser)
    return parser


if __name__ == "__main__":
    main()
