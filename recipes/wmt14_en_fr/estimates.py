"""What disk and time stages take: `estimates.py STAGE...`, with the settings in the environment.

The estimates scale what all five corpora have (6.6 GB of archives hold 40.8 million pairs, 14.7 GB
of text) to the bytes that are read, and count the products of the models. Rates were measured on an
AMD EPYC core; they are for one core where a stage uses all of them. The archives of the test sets,
whose size is not known, are small. The exit status is 1 where the disk is too small.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from os import environ
from pathlib import Path

from archives import chosen, read_table

from fairseq_rnnsearch.command_line import program
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.training.estimate import duration, flops_of_pair, free_at, parameters_of
from fairseq_rnnsearch.training.steps import log

ARCHIVE_BYTES_PER_PAIR = 162
ARCHIVE_TO_TEXT = 2.2
TEXT_TO_TOKENS = 1.05
WORD_BYTES = 6.3  # of tokenised French, its space included
ENGLISH_TO_FRENCH = 0.9  # words
DOWNLOAD_BYTES_PER_S = 10e6  # a guess: it depends on the line
EXTRACT_BYTES_PER_S = 50e6
TOKENISE_PAIRS_PER_S = 4500  # a core
SCORE_PAIRS_PER_S = 28000  # a core
CUT_PAIRS_PER_S = 200000
BINARISE_WORDS_PER_S = 165000  # a core
TRAIN_FLOPS = 62e9  # a core, at the paper's sizes, the optimizer included
SEARCH_FLOPS = 90e9  # a core, of what a search would multiply without what it keeps
SENTENCE_WORDS = 25  # of a test set
TEST_SENTENCES = 3003
CHECKPOINTS_KEPT = 4  # last, best and two more, each the parameters and two averages of them

Needs = dict[str, tuple[float, float]]  # bytes and seconds, by stage


def archives(settings: Mapping[str, str]) -> tuple[float, float]:
    """Return how many bytes are read, as if all text were in archives, and are still missing."""
    read = missing = 0.0
    if not settings["TRAIN_TEXT"]:
        try:
            table = read_table(Path(settings["ARCHIVE_TABLE"]))
            corpora = chosen(table, settings["CORPORA"].split())
        except UserError as mistake:
            raise UserError(f"CORPORA or ARCHIVE_TABLE: {mistake}") from mistake
        for archive in corpora:
            size = archive.size or 0
            read += size
            missing += size * (not Path(settings["ARCHIVES"], archive.name).exists())
    for pair in settings["TRAIN_TEXT"].split():
        for path in filter(Path.exists, map(Path, pair.split(":"))):
            read += path.stat().st_size / (1 if path.suffix == ".gz" else ARCHIVE_TO_TEXT)
    return read, missing


def needs_of_text(settings: Mapping[str, str]) -> Needs:
    """Return what the stages up to the models take."""
    read, missing = archives(settings)
    cores, keep = int(settings["PROCESSES"]), int(settings["KEEP_WORDS"])
    text, pairs = read * ARCHIVE_TO_TEXT, read / ARCHIVE_BYTES_PER_PAIR
    tokens = text * TEXT_TO_TOKENS
    french = tokens / WORD_BYTES / (1 + ENGLISH_TO_FRENCH)
    words = min(keep or french, french) * (1 + ENGLISH_TO_FRENCH)
    score = pairs / SCORE_PAIRS_PER_S / cores if keep else 0
    is_bpe = settings["VOCABULARY"] == "bpe"
    # two bytes a word of a shortlist, four of many subwords
    data = words * 2 + (words * WORD_BYTES * 1.2 if is_bpe else 0)
    return {
        "download": (missing, missing / DOWNLOAD_BYTES_PER_S),
        "extract": (text * 1.3, text / EXTRACT_BYTES_PER_S),  # and a copy of one corpus
        "tokenise": (tokens, pairs / TOKENISE_PAIRS_PER_S / cores),
        "select": (words * WORD_BYTES + pairs * 8, score + pairs / CUT_PAIRS_PER_S),
        "binarise": (data, words / BINARISE_WORDS_PER_S / cores * (6 if is_bpe else 1)),
    }


def needs_of_models(settings: Mapping[str, str]) -> Needs:
    """Return what the stages take that work with models, on CPUs."""
    m, n, a, l = (int(settings[name]) for name in ("EMBEDDING", "HIDDEN", "ATTENTION", "MAXOUT"))
    is_bpe, tests = settings["VOCABULARY"] == "bpe", int(settings["TEST_COUNT"])
    types = 2 * [int(settings["BPE_MERGES" if is_bpe else "SHORTLIST"])]
    has_dictionary = not is_bpe and "dictionary" in settings["REPLACE_UNK"]
    train = search = parameters = drawn = 0.0
    for training in settings["TRAININGS"].split():
        model, updates = training.split(":")
        attends, longest = model.startswith("RNNsearch"), int(model.rstrip("*").split("-")[1])
        if model.endswith("*"):  # only those beyond RNNsearch-50
            all_ = min(int(settings["PAPERS_STARRED_UPDATES"]), int(settings["LONGEST_TRAINING"]))
            updates = max(all_ - int(updates), 0)
        sizes = m, n, a if attends else 0, l
        source, target = flops_of_pair(sizes, (SENTENCE_WORDS, 1), types)
        pair = longest * 0.6 * (source / SENTENCE_WORDS + target)
        train += int(updates) * int(settings["BATCH_SIZE"]) * pair * 3  # backward is two forward
        parameters += parameters_of(sizes, types)
        translations = tests * TEST_SENTENCES * 1.3  # and those without unknown words
        search += translations * SENTENCE_WORDS * int(settings["BEAM"]) * target
        if attends:
            search += has_dictionary * int(settings["DICTIONARY_PAIRS"]) * pair
            drawn += tests * TEST_SENTENCES * SENTENCE_WORDS**2 * 9 * 2  # bytes of a weight: nine
    cores = int(settings["PROCESSES"])
    flops = float(settings["GFLOPS"] or 0) * 1e9 or TRAIN_FLOPS * cores
    return {
        "train": (parameters * 12 * CHECKPOINTS_KEPT, train / flops),
        "translate": (drawn, search / SEARCH_FLOPS / cores),
        "report": (0, tests * 60),
    }


def table(stages: list[str], needs: Needs, begun: list[str], done: list[str]) -> Iterator[str]:
    """Yield a line for each stage."""
    yield f"{'stage':<12} {'disk':>10} {'time':>12}"
    for stage in stages:
        disk, seconds = needs[stage]
        state = "done before" if stage in done else "begun before" if stage in begun else ""
        yield f"{stage:<12} {disk / 1e9:>7.1f} GB {duration(seconds):>12}  {state}"


@program
def main() -> None:
    """Print the estimates; fail where the disk is too small for what has not begun."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="+", metavar="STAGE")
    stages = parser.parse_args().stages
    work, needs = Path(environ["WORK"]), needs_of_text(environ) | needs_of_models(environ)
    begun, done = environ["BEGUN"].split(), environ["DONE"].split()
    print(*table(stages, needs, begun, done), sep="\n", file=sys.stderr)
    needed = sum(needs[stage][0] for stage in stages if stage not in {*begun, *done}) / 1e9
    free = free_at(work) / 1e9
    log(
        f"estimates for {environ['PROCESSES']} CPU cores; {needed:.1f} GB are needed in {work}, "
        f"{free:.1f} GB are free"
    )
    if needed <= free or environ["CHECK_DISK"] != "1":
        return
    problem = f"{needed:.1f} GB are needed in {work} and only {free:.1f} are free"
    problem += "; CHECK_DISK=0 begins all the same"
    log(f"{'the recipe would not begin' if environ['DRY_RUN'] else 'error'}: {problem}")
    if not environ["DRY_RUN"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
