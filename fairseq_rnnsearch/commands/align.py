"""``rnnsearch-align``: forced alignment of two text files.

    rnnsearch-align en-fr --source test.en --target test.fr --out aligned
    rnnsearch-align runs/quickstart --source test.en --target test.fr --out aligned \\
        --heatmap-format pharaoh,jsonl,html
    rnnsearch-align en-fr --inverse fr-en --source test.en --target test.fr --out aligned

Each line of the target file is scored as the translation of the same line of the source file, and
the alignment weights that the model computes on the way are written. Nothing has to be binarised.
Files may be compressed with gzip, bzip2 or xz, and --pairs names one of two columns instead.
The words that links count are in source.tok and target.tok. With a model of the other direction,
the links of both are joined in symmetrised.pharaoh. A warning counts and names unknown words.
"""

import argparse
import contextlib
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fairseq_rnnsearch.align.symmetrisation import METHODS, symmetrise
from fairseq_rnnsearch.command_line import parser_of, program, usage
from fairseq_rnnsearch.commands.command_options import (
    add_heatmap_options,
    add_model_options,
    load_options,
    look_of,
    progress,
    show_warnings,
    starting,
)
from fairseq_rnnsearch.errors import UsageError, UserError, option_of, pluralize
from fairseq_rnnsearch.figures import Gallery, parse_formats, parse_samples
from fairseq_rnnsearch.figures.alignment import pharaoh
from fairseq_rnnsearch.files import replacing
from fairseq_rnnsearch.text.lengths import Lengths
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
    for name, (option, file) in product((*TEXTS, JOINED), inputs):
        if file.resolve() == (options.out / name).resolve():
            raise UsageError(
                f"{option} {file} would be overwritten by the results; write them elsewhere"
            )
    with starting():  # imports torch, which --help does not need
        from fairseq_rnnsearch.commands.loading import load

    files = [file for _, file in inputs]
    lines, lengths = 0, Lengths()
    for lines, pair in enumerate(pairs_in(files), start=1):
        lengths.add(lines, *map(str.strip, pair))
    if warning := lengths.warning(" and ".join(map(str, files))):
        print(warning, file=sys.stderr)
    model = load(options.checkpoint.split(":"), options.data, **load_options(options))
    chosen = [number for number in range(1, lines + 1) if number in samples]
    aligned, others = _aligned(model, pairs_in(files), options, samples), repeat(None)
    look = look_of(options, [file.name for file in files], model.languages)
    inverse = _inverse_of(model, options) if options.inverse else None
    with contextlib.ExitStack() as stack:
        gallery = stack.enter_context(Gallery(options.out, formats, look, replaces=True))
        stack.enter_context(model.as_one_text())
        texts = [_begun(stack, options.out / name) for name in TEXTS]
        if inverse:
            stack.enter_context(inverse.as_one_text())
            swapped = (pair[::-1] for pair in pairs_in(files))
            others = _aligned(inverse, swapped, options, samples)
            joined = _begun(stack, options.out / JOINED)
        bar = progress("aligning", "pair", is_shown=True, total=len(chosen))
        count = stack.enter_context(bar)
        for pair, number, other in zip(aligned, chosen, others, strict=False):
            alignment = pair.alignment.with_source_end(options.heatmap_source_end)
            gallery.add(replace(alignment, id=number))
            for text, words in zip(texts, (pair.source_tokens, pair.tokens), strict=True):
                print(*words[:-1], file=text)
            if other:
                method = options.symmetrise or DEFAULT_METHOD
                links = _symmetrised(pair, other, method, f"line {number}")
                print(links, file=joined)
            count(1)
        if not inverse:
            (options.out / JOINED).unlink(missing_ok=True)  # of an earlier run
    print(f"{pluralize(len(chosen), 'pair')} aligned in {options.out}", file=sys.stderr)


def _inverse_of(model: "Translator", options: argparse.Namespace) -> "Translator":
    """Load the model of the other direction.

    Raises:
        UserError: if it is not one.
    """
    from fairseq_rnnsearch.commands.loading import load

    swapped = {"source_lang": options.target_lang, "target_lang": options.source_lang}
    inverse = load(options.inverse.split(":"), options.data, **load_options(options) | swapped)
    if inverse.languages != model.languages[::-1]:
        raise UserError(
            f"--inverse {options.inverse}: translates {' to '.join(inverse.languages)}; expected a"
            f" model from {' to '.join(model.languages[::-1])}"
        )
    return inverse


def _begun(stack: contextlib.ExitStack, path: Path) -> IO[str]:
    """Open a file that appears once the stack ends without an error."""
    unfinished = stack.enter_context(replacing(path))
    return stack.enter_context(unfinished.open("w", encoding="utf-8", errors="backslashreplace"))


def _symmetrised(pair: "Translation", other: "Translation", method: str, where: str) -> str:
    """Join the links of two directions.

    Raises:
        UserError: if the models split a sentence into different words. White space that one of
            them knows as a word has no links with the other's.
    """
    places = []  # positions of the other model's words among the pair's
    for words, others in ((pair.source_tokens, other.tokens), (pair.tokens, other.source_tokens)):
        ours, theirs = _visible(words), _visible(others)
        if [words[i] for i in ours] == [others[i] for i in theirs]:
            places.append(dict(zip(theirs, ours, strict=True)))
    if len(places) < 2:
        raise UserError(
            f"--inverse: the two models split {where} into different words, so their links cannot "
            "be joined; models of the same data folder split alike"
        )
    sources, targets = places
    inverse = {
        (sources[source], targets[target])
        for target, source in other.alignment.links()
        if source in sources and target in targets
    }
    return pharaoh(symmetrise(set(pair.alignment.links()), inverse, method))


def _visible(words: Sequence[str]) -> list[int]:
    """Return the positions of all words except white space."""
    return [i for i, word in enumerate(words) if join([word]).strip()]


def _aligned(
    model: "Translator",
    pairs: Iterable[tuple[str, str]],
    options: argparse.Namespace,
    samples: Container[int],
) -> Iterator["Translation"]:
    """Yield aligned pairs in their order, without loading whole files."""
    numbered = enumerate(pairs, start=1)
    chosen = (map(str.strip, pair) for number, pair in numbered if number in samples)
    while at_once := list(islice(chosen, AT_ONCE)):
        yield from model.align(
            *zip(*at_once, strict=True),
            posterior=options.posterior,
            attribution=options.attribution,
            pieces=options.heatmap_pieces,
            batch_size=options.batch_size,
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
        "--out", type=Path, required=True, metavar="DIR", help="folder for the results"
    )
    parser.add_argument(
        "--inverse",
        metavar="CHECKPOINT",
        help="a model of the other direction: the links of both are joined",
    )
    parser.add_argument(
        "--symmetrise",
        choices=METHODS,
        help=f"how to join them (default: {DEFAULT_METHOD})",
    )
    parser.add_argument(
        "--posterior",
        action="store_true",
        help="weights that know the word being aligned: the attention of each source word, times"
        " the probability of the target word if that source word had all attention",
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
