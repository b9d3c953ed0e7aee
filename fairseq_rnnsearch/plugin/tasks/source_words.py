"""Unknown words in the input of fairseq-generate.

Too many of them cause a warning. Pictures show the original words if these are still known, which
they are not in fairseq's binary data.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset
from fairseq.data.indexed_dataset import IndexedRawTextDataset
from torch import Tensor

from fairseq_rnnsearch.data.coverage import CountedText, marked, words_of
from fairseq_rnnsearch.data.plain_text import FILE_NAME, PlainText

SAMPLED = 2000  # sentences to count per data set, evenly spread


class SourceWords:
    """The words of the sentences to translate.

    Args:
        dictionaries: for the source and the target.
        languages: of the source and the target.
        data: the data folder, whose preprocessing.json may describe the tokenisation.
    """

    def __init__(
        self, dictionaries: Sequence[Dictionary], languages: Sequence[str], data: Path
    ) -> None:
        self._dictionaries = dictionaries
        self._vocabularies = [
            replace(words_of(words, language), alternatives=partial(_alternatives, data, language))
            for words, language in zip(dictionaries, languages, strict=True)
        ]

    def count_data(self, datasets: Iterable[FairseqDataset], with_target: bool) -> None:
        """Warn about unknown words in whole data sets.

        Args:
            with_target: whether targets are given too, to be scored.
        """
        for data in datasets:
            if not isinstance(data, LanguagePairDataset):
                continue
            text = CountedText(*self._vocabularies)
            for number in range(0, len(data), len(data) // SAMPLED + 1):
                if with_target and data.tgt is not None:
                    text.add_target(_words_at(data.tgt, number, self._dictionaries[1]))
                text.add_source(_words_at(data.src, number, self._dictionaries[0]))
            text.end()

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
        words: Sequence[str] = ()
        if len(datasets) == 1:
            (data,) = datasets.values()
            words = _words_at(data.src, sentence, dictionary)
        if len(words) + 1 != len(shown):
            return shown
        return (*marked(words, self._vocabularies[0]), shown[-1])


def _alternatives(folder: Path, language: str) -> dict:
    if not (folder / FILE_NAME).exists():
        return {}
    program = f"rnnsearch-translate, which prepares text as {FILE_NAME} says,"
    return {program: PlainText.of(folder, language).tokens}


def _words_at(data: FairseqDataset, number: int, dictionary: Dictionary) -> list[str]:
    """Return a sentence's words without the end symbol; binary data has lost unknown words."""
    if isinstance(data, IndexedRawTextDataset):
        return data.get_original_text(number).split()
    symbols = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
    return [dictionary[i] for i in data[number].tolist() if i not in symbols]
