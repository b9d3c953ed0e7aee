"""A small English-French corpus, generated from a hand-made grammar: the quickstart's data.

    python recipes/quickstart/toy_corpus.py --out DIR [--train N --valid N --test N --seed N]

writes {train,valid,test}.{en,fr}: lower-cased words separated by spaces, one sentence a line;
elided forms are words of their own ("l' homme n' aime pas ..."). The same seed gives the same
files.

The French side is a function of the English side, so that a perfect model scores 100 BLEU. What it
has to learn is what separates the two languages: gender and number agreement, adjectives after
the noun, elision, contraction (au, du), negation in two parts, do-support, object pronouns
before the verb, participles that agree, possessors after the possessed.

The words are in words.toml, which lexicon.py reads; grammar.py builds sentences of them, and
sampler.py draws those. Only the standard library is used, so that the folder also runs alone.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from grammar import Sentence, clause, noun_phrase, prepositional, sentence
from lexicon import LEXICON
from sampler import sentences


def shown_sentences() -> list[Sentence]:
    """Return the first sentences of the validation set, which heatmaps show.

    In each, adjective and noun change places more than once.
    """
    verbs = LEXICON.transitive
    return [
        sentence(
            clause(
                noun_phrase("the", "woman", "young"),
                verbs["buy"],
                noun_phrase("a", "car", "red"),
                rest=prepositional("near", noun_phrase("the", "church", "white")),
            )
        ),
        sentence(
            clause(
                noun_phrase("the", "cat", "black"),
                verbs["drink"],
                noun_phrase("the", "milk", "cold"),
                negative=True,
            )
        ),
        sentence(
            clause(
                noun_phrase("my", "friend", "italian"),
                LEXICON.ditransitive["give"],
                noun_phrase("the", "shirt", "blue", plural=True),
                tense="past",
                rest=prepositional("to", noun_phrase("the", "student", "curious")),
            )
        ),
        sentence(
            clause(
                noun_phrase("the", "artist", "famous"),
                verbs["paint"],
                noun_phrase("the", "door", "green", owner=noun_phrase("the", "king")),
                tense="want",
            )
        ),
    ]


def split_corpus(train: int, valid: int, test: int, seed: int) -> dict[str, list[Sentence]]:
    """Make three sets of so many sentences; no English side occurs twice.

    Raises:
        ValueError: the grammar does not have so many sentences.
    """
    wanted = train + valid + test
    distinct = dict(shown_sentences()[:valid])
    source = sentences(seed)
    for _ in range(20 * wanted + 1000):
        if len(distinct) == wanted:
            break
        distinct.setdefault(*next(source))
    else:
        raise ValueError(f"the grammar ran out of new sentences: fewer than {wanted} can be drawn")
    pairs = [Sentence(*pair) for pair in distinct.items()]
    return {
        "valid": pairs[:valid],
        "test": pairs[valid : valid + test],
        "train": pairs[valid + test :],
    }


def write_corpus(folder: Path, corpus: dict[str, list[Sentence]]) -> None:
    """Write one file for each set and language; a file is complete or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in corpus.items():
        for language, side in (("en", 0), ("fr", 1)):
            path = folder / f"{split}.{language}"
            partial = folder / f"{path.name}.partial"
            partial.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
            os.replace(partial, path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Write a small English-French corpus, generated from a grammar."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--train", type=int, default=12000, help="sentences (default: 12000)")
    parser.add_argument("--valid", type=int, default=500, help="sentences (default: 500)")
    parser.add_argument("--test", type=int, default=500, help="sentences (default: 500)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for split in ("train", "valid", "test"):
        if getattr(options, split) < 1:
            parser.error(f"--{split} {getattr(options, split)}: must be at least 1")
    try:
        corpus = split_corpus(options.train, options.valid, options.test, options.seed)
    except ValueError as problem:
        parser.error(str(problem))
    write_corpus(options.out, corpus)
    words = [
        len({word for pairs in corpus.values() for pair in pairs for word in pair[side].split()})
        for side in (0, 1)
    ]
    sizes = ", ".join(f"{split} {len(corpus[split])}" for split in ("train", "valid", "test"))
    print(f"{sizes} sentences; {words[0]} English and {words[1]} French words")


if __name__ == "__main__":
    main()
