"""A dictionary from word links: what a rare word that the model does not know is called."""

from collections import Counter
from collections.abc import Iterable, Sequence

from fairseq_rnnsearch.evaluation.links import Link


def dictionary(
    source: Iterable[str],
    target: Iterable[str],
    links: Iterable[frozenset[Link]],
    fewest: int = 2,
) -> dict[str, str]:
    """The translation of each source word, by the Dice coefficient of its links.

    2 c(s, t) / (c(s) + c(t)), where c counts links: a frequent target word, which is linked to
    many source words, is not taken for the translation of each. The dictionary is what Jean et al.
    (2015, section 3.3) and Luong et al. (2015) put for UNK, here by the model's own alignments.

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


def lines(words: dict[str, str]) -> Sequence[str]:
    """As ``fairseq-generate --replace-unk FILE`` reads them."""
    return [f"{source} {target}\n" for source, target in words.items()]
