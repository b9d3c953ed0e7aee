"""Unknown words by means of alignments: a dictionary from word links, and words in UNK's place.

Luong et al. (2015) and Jean et al. (2015, section 3.3) replace each UNK by a dictionary's
translation of the source word it is aligned to, or by that word itself. Here the links are
RNNsearch's own: the source word of most weight.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.evaluation.links import Link
from fairseq_rnnsearch.evaluation.texts import read_sentences
from fairseq_rnnsearch.figures import Alignment

UNKNOWN = "<unk>"


def learn_dictionary(
    source: Iterable[str],
    target: Iterable[str],
    links: Iterable[frozenset[Link]],
    fewest: int = 2,
) -> dict[str, str]:
    """The translation of each source word, by the Dice coefficient of its links.

    2 c(s, t) / (c(s) + c(t)), where c counts links: a frequent target word, which is linked to
    many source words, is not taken for the translation of each.

    Args:
        source, target: tokenised sentences.
        links: of each pair, source and target word from 0.
        fewest: times that two words must be linked.

    Returns:
        Source words in the order of the alphabet; of equally good translations the more frequent,
        then the first in the alphabet.
    """
    together = Counter(
        (here[i], there[j])
        for here, there, pairs in zip(
            map(str.split, source), map(str.split, target), links, strict=True
        )
        for i, j in pairs
    )
    of_source, of_target = Counter(), Counter()
    for (s, t), count in together.items():
        of_source[s] += count
        of_target[t] += count
    best: dict[str, tuple] = {}
    for (s, t), count in together.items():
        if count >= fewest:
            dice = 2 * count / (of_source[s] + of_target[t])
            best[s] = min(best.get(s, (0,)), (-dice, -count, t))
    return {s: best[s][-1] for s in sorted(best)}


def dictionary_lines(words: Mapping[str, str]) -> Sequence[str]:
    """As ``fairseq-generate --replace-unk FILE`` reads them."""
    return [f"{source} {target}\n" for source, target in words.items()]


def read_dictionary(path: Path) -> dict[str, str]:
    """
    Raises:
        UserError: a line that is no `source target`, or as `read_sentences`.
    """
    words = {}
    for number, line in enumerate(read_sentences(path), start=1):
        fields = line.split()
        if len(fields) != 2:
            raise UserError(
                f"{path}, line {number}: found {line[:60]!r}; valid is a source word and its"
                " translation"
            )
        words[fields[0]] = fields[1]
    return words


def replace_unknown(
    translation: str, alignment: Alignment, source: str, dictionary: Mapping[str, str]
) -> str:
    """A translation without ``<unk>``.

    Args:
        translation: tokens, of which some are ``<unk>``.
        alignment: of these tokens; its weights may have the end symbols, and its source words
            need not be the source's, which the model may not have known.
        source: tokens.

    Raises:
        UserError: an alignment of other sentences.
    """
    words, sources = translation.split(), source.split()
    links = alignment.links()
    if UNKNOWN not in words or not sources:
        return translation
    if len(links) != len(words) or max(i for i, _ in links) >= len(sources):
        raise UserError(
            f"alignment {alignment.id} has {len(links)} target words and is not that of the"
            f" translation {translation[:60]!r} of {source[:60]!r}"
        )
    for i, j in links:
        if words[j] == UNKNOWN:
            words[j] = dictionary.get(sources[i], sources[i])
    return " ".join(words)
