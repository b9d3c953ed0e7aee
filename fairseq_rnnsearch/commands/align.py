"""``rnnsearch-align``: forced alignment of two text files.

    rnnsearch-align en-fr --source test.en --target test.fr > links
    rnnsearch-align runs/quickstart --source test.en --target test.fr --out aligned \\
        --heatmap-format pharaoh,jsonl,html
    rnnsearch-align en-fr --inverse fr-en --source test.en --target test.fr --out aligned

Each line of the target file is scored as the translation of the same line of the source file, and
links are chosen by posterior weights, or by those of attention. Nothing has to be binarised. Files
may be compressed with gzip, bzip2 or xz, and --pairs names one of two columns instead. Links count
the words between the spaces of your lines, which a folder has in source.tok and target.tok. With a
model of the other direction, the links of both are joined. A warning names unknown words.
"""

import argparse
import contextlib
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_rnnsearch.align.links import Link
from fairseq_rnnsearch.align.symmetrisation import METHODS, symmetrise
from fairseq_rnnsearch.command_line import parser_of, program, usage
from fairseq_rnnsearch.commands.command_options import (
    add_heatmap_options,
    add_markup_options,
    add_model_options,
    inverse_of,
    load_options,
    look_of,
    progress,
    show_warnings,
    starting,
    units_of,
    warn_of_tokens,
)
from fairseq_rnnsearch.errors import UsageError, UserError, option_of, pluralize
from fairseq_rnnsearch.figures import Gallery, parse_formats, parse_samples
from fairseq_rnnsearch.figures.alignment import Alignment, Units, best_links, pharaoh
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.text.lengths import warning_of
from fairseq_rnnsearch.text.reversible import join
from fairseq_rnnsearch.text.tables import pairs_in

if TYPE_CHECKING:
    from fairseq_rnnsearch.commands.translation import Translation
    from fairseq_rnnsearch.commands.translator import Translator

AT_ONCE = 320  # pairs to read, sort by length and align together
TEXTS, JOINED = ("source.tok", "target.tok"), "symmetrised.pharaoh"
DEFAULT_METHOD = "grow-diag-final-and"


@program
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    show_warnings()
    options = _parser().parse_args(arguments)
    if options.attribution:  # bfloat16 rounds off more than most effects are large
        options.compute_dtype = options.compute_dtype or "float32"
    with usage():
        formats = parse_formats(options.heatmap_format)
        samples = parse_samples(options.heatmap_samples)
    if options.symmetrise and not options.inverse:
        raise UsageError(f"--symmetrise {options.symmetrise} needs --inverse, the other direction")
    inputs = [
        (option_of(name), file)
        for name in ("source", "target", "pairs")
        if (file := getattr(options, name))
    ]
    if [name for name, _ in inputs] not in (["--source", "--target"], ["--pairs"]):
        raise UsageError("--source and --target name the two text files, or --pairs one table")
    if options.out and (options.scores or options.words or options.markup):
        raise UsageError("--scores, --words and --markup are of standard output; leave out --out")
    for name, (option, file) in product((*TEXTS, JOINED) if options.out else (), inputs):
        if file.resolve() == (options.out / name).resolve():
            raise UsageError(
                f"{option} {file} would be overwritten by the results; write them elsewhere"
            )
    with starting():  # imports torch, which --help does not need
        from fairseq_rnnsearch.commands.loading import load

    files = [file for _, file in inputs]
    pairs = partial(pairs_in, files)
    if not all(map(Path.is_file, files)):  # a pipe can be read once
        pairs = partial(iter, list(pairs()))
    lengths = [[len(line.strip()) for line in pair] for pair in pairs()]
    if warning := warning_of(" and ".join(map(str, files)), lengths):
        print(warning, file=sys.stderr)
    model = load(options.checkpoint.split(":"), options.data, **load_options(options))
    chosen = [number for number in range(1, len(lengths) + 1) if number in samples]
    inverse = inverse_of(model, options) if options.inverse else None
    # a line of progress would stand between those of a terminal
    is_shown = bool(options.out) or (sys.stderr.isatty() and not sys.stdout.isatty())
    bar = progress("aligning", "pair", is_shown=is_shown, total=len(chosen))
    if not options.out:
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    if options.markup:
        with model.as_one_text(), bar as count:
            for pair in _aligned(model, pairs(), options, samples, markup=True, inverse=inverse):
                print(pair.markup)
                count(1)
        return
    look = look_of(options, [file.name for file in files], model.languages)
    kind = "posterior" if options.posterior else "attention"
    look = replace(look, model=f"{look.model}, {kind} weights")
    aligned, others = _aligned(model, pairs(), options, samples), repeat(None)
    both = [*filter(None, (model, inverse))]
    sides = (text for one in both for text in (one.source_text, one.target_text))
    units = units_of(options, *sides)
    gallery, texts, in_tokens, output = None, [], [], sys.stdout
    with contextlib.ExitStack() as stack:
        stack.enter_context(model.as_one_text())
        if options.out:
            gallery = Gallery(options.out, formats, look, options.threshold, replaces=True)
            stack.enter_context(gallery)
            texts = [_begun(stack, options.out / name) for name in TEXTS]
            output = _begun(stack, options.out / JOINED) if inverse else None
        if inverse:
            stack.enter_context(inverse.as_one_text())
            swapped = (pair[::-1] for pair in pairs())
            others = _aligned(inverse, swapped, options, samples)
        count = stack.enter_context(bar)
        for pair, number, other in zip(aligned, chosen, others, strict=False):
            ours, *theirs = _in_units(
                filter(None, (pair, other)), units, options.heatmap_source_end
            )
            in_tokens += [number] * (ours.alignment.units != units)
            for text, words in zip(texts, ours.words, strict=False):
                print(*words, file=text)
            if gallery:
                gallery.add(replace(ours.alignment, id=number))
            weights = ours.alignment.weights_of_words
            links = best_links(weights, 1, options.threshold)
            if theirs:
                weights, links = _symmetrised(ours, *theirs, options, f"line {number}")
            if output:
                print(_line(ours, links, weights, options), file=output)
            count(1)
        if options.out and not inverse:
            (options.out / JOINED).unlink(missing_ok=True)  # of an earlier run
    warn_of_tokens(in_tokens)
    if options.out:
        print(
            f"{pluralize(len(chosen), 'pair')} aligned in {options.out}; links count the {units} of"
            " your lines",
            file=sys.stderr,
        )


def _begun(stack: contextlib.ExitStack, path: Path) -> IO[str]:
    """Open a file that appears once the stack ends without an error."""
    unfinished = stack.enter_context(replacing(path))
    return stack.enter_context(unfinished.open("w", encoding="utf-8", errors="backslashreplace"))


class _Counted(NamedTuple):
    """An aligned pair in the units that links count.

    Attributes:
        words: of the source and of the target, without end symbols.
    """

    alignment: Alignment
    words: tuple[Sequence[str], Sequence[str]]


def _in_units(pairs: Iterable["Translation"], units: Units, source_end: str) -> list[_Counted]:
    """Return the same pair from each direction in the units, or all in tokens if one is."""
    pairs = list(pairs)
    alignments = [pair.alignment.in_units(units) for pair in pairs]
    if any(one.units == "tokens" for one in alignments):
        alignments = [pair.alignment for pair in pairs]
    words = [(pair.source_tokens[:-1], pair.tokens[:-1]) for pair in pairs]
    if alignments[0].units == "words":
        words = [tuple(line.text.split() for line in one.lines) for one in alignments]
    shown = (one.with_source_end(source_end) for one in alignments)
    return [*map(_Counted, shown, words)]


def _symmetrised(
    pair: _Counted, other: _Counted, options: argparse.Namespace, where: str
) -> tuple[NDArray, frozenset[Link]]:
    """Join the links of two directions; return the means of their weights too.

    Raises:
        UserError: if the models split a sentence into different words. White space that one of
            them knows as a word has no links with the other's.
    """
    places = []  # positions of the same words in the pair and in the other
    for words, others in zip(pair.words, other.words[::-1], strict=True):
        ours, theirs = _visible(words), _visible(others)
        if [words[i] for i in ours] == [others[i] for i in theirs]:
            places.append((ours, theirs))
    if len(places) < 2:
        raise UserError(
            f"--inverse: the two models split {where} into different words, so their links cannot "
            "be joined; models of the same data folder split alike"
        )
    (sources, their_sources), (targets, their_targets) = places
    weights, back = (one.alignment.weights_of_words for one in (pair, other))
    same = back[np.ix_(their_sources, their_targets)].T
    inverse = {(sources[i], targets[j]) for i, j in best_links(same, 0, options.threshold)}
    means = weights / 2
    means[np.ix_(targets, sources)] += same / 2
    forward, method = {*best_links(weights, 1, options.threshold)}, options.symmetrise
    return means, symmetrise(forward, inverse, method or DEFAULT_METHOD)


def _line(
    pair: _Counted, links: Iterable[Link], weights: NDArray, options: argparse.Namespace
) -> str:
    """Return links as a line of text."""
    parts = []
    for source, target in sorted(links, key=lambda link: link[::-1]):
        part = pharaoh([pair.alignment.named((source, target))])
        if options.words:
            part = f"{pair.words[0][source]}-{pair.words[1][target]}"
        parts.append(f"{part}:{weights[target, source]:.2f}" if options.scores else part)
    return " ".join(parts)


def _visible(words: Sequence[str]) -> list[int]:
    """Return the positions of all words except white space."""
    return [i for i, word in enumerate(words) if join([word]).strip()]


def _aligned(
    model: "Translator",
    pairs: Iterable[tuple[str, str]],
    options: argparse.Namespace,
    samples: Container[int],
    **markup: Any,
) -> Iterator["Translation"]:
    """Yield aligned pairs in their order, without loading whole files."""
    chosen = (pair for number, pair in enumerate(pairs, start=1) if number in samples)
    chosen = ([line.rstrip("\r\n") for line in pair] for pair in chosen)
    while at_once := list(islice(chosen, AT_ONCE)):
        yield from model.align(
            *zip(*at_once, strict=True),
            posterior=options.posterior,
            attribution=options.attribution,
            pieces=options.heatmap_pieces,
            batch_size=options.batch_size,
            **markup,
        )


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("rnnsearch-align", __doc__)
    parser.add_argument(
        "checkpoint",
        help="a model of the package, such as en-fr, a folder of rnnsearch-export, a checkpoint, "
        "several of these joined by :, or the work folder of rnnsearch-train or a recipe",
    )
    parser.add_argument("--source", type=Path, metavar="FILE", help="sentences, one per line")
    parser.add_argument("--target", type=Path, metavar="FILE", help="their translations")
    parser.add_argument("--pairs", type=Path, metavar="FILE", help="both, with a tab in between")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for the results (default: links to standard output, 0-0 1-2 for each pair)",
    )
    parser.add_argument("--scores", action="store_true", help="print links as 0-0:0.93")
    parser.add_argument("--words", action="store_true", help="print links as word-word")
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="all links with a weight above P, before they are joined (default: the best of each"
        " word)",
    )
    add_markup_options(parser)
    parser.add_argument(
        "--symmetrise",
        choices=METHODS,
        help=f"how to join them (default: {DEFAULT_METHOD})",
    )
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument(
        "--posterior",
        action="store_true",
        default=True,
        help="weights that know the word being aligned: the attention of each source word, times"
        " the probability of the target word if that source word had all attention (default)",
    )
    weights.add_argument(
        "--attention",
        action="store_false",
        dest="posterior",
        help="the weights that the decoder used, before it knew the word",
    )
    parser.add_argument(
        "--attribution",
        action="store_true",
        help="write to jsonl, as mattered, and to html how far log p of each target word falls "
        "when attention cannot look at a source word; computed in float32 unless told otherwise",
    )
    add_heatmap_options(parser, "pharaoh,jsonl")
    add_model_options(parser)
    return parser


if __name__ == "__main__":
    main()
