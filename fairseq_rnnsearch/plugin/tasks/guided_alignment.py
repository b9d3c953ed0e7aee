"""``--guided-alignment``: links of the training pairs, for a cost of the alignment weights.

A file has a line for each pair of the binarised training data, in their order: links ``i-j`` of
words, the source word first, both counted from 0 (Pharaoh format; the line is empty where a pair
has no links). They become what fairseq calls the alignments of a batch, as if ``--load-alignments``
had read them, so that they follow their pairs however these are shuffled, dropped, shared by
processes or computed in parts; and fairseq's own criterion takes them too.

A word that is cut into subword pieces (``@@``) is linked with all of its pieces. Data in which
``<unk>`` stands for a piece do not show where a word ends: such a pair goes without links.
"""

import logging
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq.criterions import FairseqCriterion
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.models import BaseFairseqModel, FairseqEncoderDecoderModel
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from fairseq_rnnsearch.alignment.figures.alignment import bpe_piece
from fairseq_rnnsearch.errors import UserError, counted
from fairseq_rnnsearch.inference.search.generator import StepwiseDecoder
from fairseq_rnnsearch.plugin.criterions import AlignmentHeatmapCriterion

logger = logging.getLogger(__name__)

_LINK = re.compile("[0-9]{1,7}-[0-9]{1,7}")
_LINE = re.compile(rf"\s*(?:{_LINK.pattern}(?:\s+|$))*", re.ASCII)


class _Side:
    """One side of the training pairs, whose words may be cut into pieces."""

    def __init__(
        self, name: str, sentences: Sequence[Tensor], sizes: np.ndarray, dictionary: Dictionary
    ) -> None:
        self.name = name
        self._sentences, self._sizes, self._unk = sentences, sizes, dictionary.unk()
        pieces = (bpe_piece(dictionary[number])[1] for number in range(len(dictionary)))
        self._continues = np.fromiter(pieces, dtype=bool, count=len(dictionary))
        self.has_pieces = bool(self._continues.any())

    def words_of_pieces(self, index: int) -> np.ndarray | None:
        """Return the number of the word that each piece belongs to, or None if that is unknown."""
        pieces = self._sentences[index].numpy()[:-1]  # without the end symbol
        if self.has_pieces and (pieces == self._unk).any():
            return None
        begins = np.ones(len(pieces), dtype=bool)
        begins[1:] = ~self._continues[pieces[:-1]]
        return begins.cumsum() - 1

    def count_words(self, index: int) -> int | None:
        """Return how many words a sentence has, or None if that is unknown."""
        if not self.has_pieces:
            return int(self._sizes[index]) - 1
        words = self.words_of_pieces(index)
        return None if words is None else int(words[-1]) + 1 if len(words) else 0


class GuidedAlignment(Dataset):
    """The links of each pair of a data set, between pieces; an ``align_dataset`` of fairseq's.

    Args:
        path: the file of links.
        pairs: the training data.
        name: what messages call the data.

    Raises:
        UserError: when the file cannot be read, has not a line for each pair, or a line that holds
            anything else than links, or a link to a word that its sentence does not have.
    """

    def __init__(self, path: Path, pairs: LanguagePairDataset, name: str) -> None:
        self._sides = (
            _Side("source", pairs.src, pairs.src_sizes, pairs.src_dict),
            _Side("target", pairs.tgt, pairs.tgt_sizes, pairs.tgt_dict),
        )
        links, ends, unknown = array("i"), [0], 0
        number = 0
        for number, line in enumerate(_lines(path), start=1):
            if number > len(pairs):
                continue  # they are counted for the message
            if not _LINE.fullmatch(line):
                raise _malformed(path, number, line)
            found = array("i", map(int, line.replace("-", " ").split()))
            if found and self._check(path, number, line, found):
                links.extend(found)
            else:
                unknown += bool(found)
            ends.append(len(links) // 2)
        if number != len(pairs):
            raise UserError(
                f"--guided-alignment {path} has {counted(number, 'line')}, but {name} has"
                f" {counted(len(pairs), 'pair')}: it must have a line for each, in their order,"
                " empty for a pair without links"
            )
        self._links, self._ends = np.array(links).reshape(-1, 2), np.array(ends)
        logger.info("%s guide the alignments of %s", counted(ends[-1], "link"), name)
        if unknown:
            logger.warning(
                "%s without links: <unk> stands for a part of a word there, and the words cannot "
                "be counted",
                counted(unknown, "pair goes", "pairs go"),
            )

    def _check(self, path: Path, number: int, line: str, links: array) -> bool:
        """Return whether the words of a pair can be counted; the largest must be one of them."""
        known = True
        for place, side in enumerate(self._sides):
            words = side.count_words(number - 1)
            if words is None:
                known = False
            elif (largest := max(links[place::2])) >= words:
                link = next(x for x in line.split() if int(x.split("-")[place]) == largest)
                valid = f"0 to {words - 1}" if words else "none"
                raise UserError(
                    f"--guided-alignment {path}, line {number}: found word {largest} of the"
                    f" {side.name} in {link!r}, but that sentence of the training data has"
                    f" {counted(words, 'word')}; valid, counted from 0: {valid}"
                )
        return known

    def __getitem__(self, index: int) -> Tensor:
        """Return the links of a pair's pieces, ``(links, 2)``, the source first."""
        links = self._links[slice(*self._ends[index : index + 2])]
        if not len(links) or not any(side.has_pieces for side in self._sides):
            return torch.from_numpy(links).long()
        source, target = (side.words_of_pieces(index) for side in self._sides)
        of_words = np.zeros((source[-1] + 1, target[-1] + 1), dtype=bool)
        of_words[tuple(links.T)] = True
        return torch.from_numpy(np.argwhere(of_words[source[:, None], target]))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def prefetch(self, indices: Sequence[int]) -> None:
        """Do nothing: fairseq asks for it where it reads the sentences themselves ahead."""


def check_guidance(model: BaseFairseqModel | None, criterion: FairseqCriterion) -> None:
    """Check that ``--guided-alignment`` will be of use.

    Raises:
        UserError: for a model without attention, or a criterion that does not know of links.
    """
    decoder = model.decoder if isinstance(model, FairseqEncoderDecoderModel) else None
    if isinstance(decoder, StepwiseDecoder) and not decoder.has_alignment:
        raise UserError(
            "--guided-alignment needs a model with attention; RNNencdec reads its source through "
            "one vector and has no alignment"
        )
    knows = (AlignmentHeatmapCriterion, LabelSmoothedCrossEntropyCriterionWithAlignment)
    if not isinstance(criterion, knows):
        raise UserError(
            f"--guided-alignment: the criterion {type(criterion).__name__} takes no links; valid "
            "are --criterion alignment_heatmap and label_smoothed_cross_entropy_with_alignment"
        )


def _lines(path: Path) -> Iterator[str]:
    """Yield lines as fairseq splits them, and show how it goes where that takes long."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield from tqdm(file, f"reading {path.name}", unit="pair", delay=2, leave=False)
    except OSError as problem:
        raise UserError(f"--guided-alignment {path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise UserError(f"--guided-alignment {path} is not UTF-8: byte {problem.start}") from None


def _malformed(path: Path, number: int, line: str) -> UserError:
    wrong = next(x for x in line.split() if not _LINK.fullmatch(x))
    return UserError(
        f"--guided-alignment {path}, line {number}: found {wrong!r:.60}; valid are links like 3-2"
        " with blanks between them, the source word first, counted from 0"
    )
