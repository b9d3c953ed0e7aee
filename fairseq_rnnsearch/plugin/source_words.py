"""Unknown words in the input of fairseq-generate.

A warning counts them. Pictures show the original words if these are still known, which
they are not in fairseq's binary data.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset
from fairseq.data.indexed_dataset import IndexedRawTextDataset
from fairseq.utils import split_paths
from torch import Tensor

from fairseq_rnnsearch.text.coverage import WordCount, marked, words_of
from fairseq_rnnsearch.text.plain_text import has_pieces, settings_of

SAMPLED = 2000  # sentences to count per data set, evenly spread


class SourceWords:
    """The words of the sentences to translate.

    Args:
        dictionaries: for the source and the target.
        languages: of the source and the target.
        data: fairseq's data folders; the first one's preprocessing.json tells whether words may be
            split into pieces.
    """

    def __init__(
        self, dictionaries: Sequence[Dictionary], languages: Sequence[str], data: str | None
    ) -> None:
        self._dictionaries = dictionaries
        described = settings_of(Path(split_paths(data)[0])) if data else {}
        self.has_pieces = [
            has_pieces(described.get(language, {}), dictionary.symbols)
            for dictionary, language in zip(dictionaries, languages, strict=True)
        ]
        self.tokenizers = [
            described.get(language, {}).get("tokenizer", "space") for language in languages
        ]
        self._vocabularies = list(map(words_of, dictionaries, languages, self.has_pieces))

    def count_data(self, datasets: Iterable[FairseqDataset], with_target: bool) -> None:
        """Warn about unknown words in whole data sets.

        Args:
            with_target: whether targets are given too, to be scored.
        """
        for data in datasets:
            if not isinstance(data, LanguagePairDataset):
                continue
            sides = [data.src, data.tgt if with_target else None]
            each = zip(sides, self._dictionaries, self._vocabularies, strict=True)
            for sentences, dictionary, vocabulary in each:
                count = WordCount(vocabulary)
                for number in range(0, len(sentences or ()), len(data) // SAMPLED + 1):
                    count.add(_words_at(sentences, number, dictionary))
                count.warn()

    def labels(
        self,
        sentence: int,
        source: Tensor,
        datasets: Mapping[str, FairseqDataset],
    ) -> tuple[str, ...]:
        """Return the words of a source sentence; unknown ones are marked, and named if possible.

        Args:
            source: word numbers, without padding.
        """
        dictionary = self._dictionaries[0]
        shown = tuple(dictionary[number] for number in source)
        if len(datasets) == 1:
            (data,) = datasets.values()
            words = _words_at(data.src, sentence, dictionary)
            if len(words) + 1 == len(shown):
                return (*marked(words, self._vocabularies[0]), shown[-1])
        return shown


def _words_at(data: FairseqDataset, number: int, dictionary: Dictionary) -> list[str]:
    """Return a sentence's words without the end symbol; binary data has lost unknown words."""
    if isinstance(data, IndexedRawTextDataset):
        return data.get_original_text(number).split()
    symbols = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
    return [dictionary[i] for i in data[number].tolist() if i not in symbols]
