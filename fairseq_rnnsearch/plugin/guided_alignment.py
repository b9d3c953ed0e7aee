"""``--guided-alignment``: links for the training pairs, which a cost makes attention follow.

The file has one line per pair of the binarised training data, in the same order: word links
``i-j``, the source word first, both counted from 0 (Pharaoh format; an empty line for a pair
without links). They become fairseq's alignments of a batch, as if read by ``--load-alignments``, so
they follow their pairs however these are shuffled, dropped, shared by processes or split; and
fairseq's own criterion reads them too.

Words are those between the spaces of the text before it was tokenised, if the tokens show these
spaces, as those of ``reversible`` and ``character`` do. If the links fit only tokens, they count
tokens. A link of a word that is cut into tokens or subword pieces (``@@``) applies to all. If
``<unk>`` replaces one, the data does not show where the word ends, and the pair gets no links.
"""

import logging
from array import array
from collections.abc import Sequence
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

from fairseq_rnnsearch.align.links import pharaoh_words
from fairseq_rnnsearch.decoding.decode import has_alignment
from fairseq_rnnsearch.errors import UserError, pluralize
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion
from fairseq_rnnsearch.text.corpus import text_lines
from fairseq_rnnsearch.text.plain_text import PlainText

logger = logging.getLogger(__name__)

SHOW_SPACES = ("reversible", "character")  # tokenizers whose tokens tell where the text has spaces


class _Side:
    """One side of the training pairs, whose words may be cut into pieces."""

    def __init__(
        self,
        name: str,
        sentences: Sequence[Tensor],
        sizes: np.ndarray,
        dictionary: Dictionary,
        has_pieces: bool,
        text: PlainText | None,
    ) -> None:
        self.name, self._symbols, self._text = name, dictionary.symbols, text
        self._sentences, self._sizes, self._unk = sentences, sizes, dictionary.unk()
        self._continues = np.array(
            [has_pieces and word.endswith("@@") for word in dictionary.symbols]
        )
        self.is_cut = text is not None or bool(self._continues.any())

    def words_of_pieces(self, index: int) -> np.ndarray | None:
        """Return the number of each piece's word, or None if unknown."""
        pieces = self._sentences[index].numpy()[:-1]  # without the end symbol
        if self.is_cut and (pieces == self._unk).any():
            return None
        if self._text is not None:
            tokens = [self._symbols[piece] for piece in pieces]
            line = self._text.line(self._text.text(tokens), tokens)
            return line and np.array(line.words, int)
        begins = np.ones(len(pieces), dtype=bool)
        begins[1:] = ~self._continues[pieces[:-1]]
        return begins.cumsum() - 1

    def count_words(self, index: int) -> int | None:
        """Return the number of words in a sentence, or None if unknown."""
        if not self.is_cut:
            return int(self._sizes[index]) - 1
        words = self.words_of_pieces(index)
        return None if words is None else int(words[-1]) + 1 if len(words) else 0


class GuidedAlignment(Dataset):
    """The links between pieces for each pair of a data set; an ``align_dataset`` for fairseq.

    Args:
        path: the file of links.
        pairs: the training data.
        name: the data's name in messages.
        has_pieces: whether the source and the target have pieces.
        tokenizers: of the source and the target.

    Raises:
        UserError: if the file cannot be read or does not have one line per pair, or a line has
            anything but links, or a link to a word that its sentence does not have.
    """

    def __init__(
        self,
        path: Path,
        pairs: LanguagePairDataset,
        name: str,
        has_pieces: Sequence[bool] = (True, True),
        tokenizers: Sequence[str] = ("space", "space"),
    ) -> None:
        source = "source", pairs.src, pairs.src_sizes, pairs.src_dict, has_pieces[0]
        target = "target", pairs.tgt, pairs.tgt_sizes, pairs.tgt_dict, has_pieces[1]
        texts = [PlainText("", one) if one in SHOW_SPACES else None for one in tokenizers]
        self._sides = _Side(*source, texts[0]), _Side(*target, texts[1])
        try:
            self._read(path, pairs, name)
        except UserError:
            if texts == [None, None]:
                raise
            self._sides = _Side(*source, None), _Side(*target, None)
            self._read(path, pairs, name)
            logger.warning("--guided-alignment %s: links count tokens, not words", path)

    def _read(self, path: Path, pairs: LanguagePairDataset, name: str) -> None:
        links, ends, number, unknown = array("i"), [0], 0, 0
        lines = text_lines(path, "--guided-alignment")
        lines = tqdm(lines, f"reading {path.name}", unit="pair", delay=2, leave=False)
        for number, line in enumerate(lines, start=1):
            if number > len(pairs):
                continue  # count lines for the message
            positions = array("i", pharaoh_words(f"--guided-alignment {path}", number, line))
            if positions and self._check(path, number, line, positions):
                links.extend(positions)
            else:
                unknown += bool(positions)
            ends.append(len(links) // 2)
        if number != len(pairs):
            raise UserError(
                f"--guided-alignment {path} has {pluralize(number, 'line')}, but {name} has"
                f" {pluralize(len(pairs), 'pair')}: it must have a line for each, in their order,"
                " empty for a pair without links"
            )
        self._links, self._ends = np.array(links).reshape(-1, 2), np.array(ends)
        logger.info("%s guide the alignments of %s", pluralize(ends[-1], "link"), name)
        if unknown:
            logger.warning(
                "%s without links: <unk> stands for a part of a word there, and the words cannot "
                "be counted",
                pluralize(unknown, "pair goes", "pairs go"),
            )

    def _check(self, path: Path, number: int, line: str, links: array) -> bool:
        """Return whether a pair's words can be counted; if so, check that its links fit."""
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
                    f" {pluralize(words, 'word')}; valid, counted from 0: {valid}"
                )
        return known

    def __getitem__(self, index: int) -> Tensor:
        """Return the links between a pair's pieces, ``(links, 2)``, the source first."""
        links = self._links[slice(*self._ends[index : index + 2])]
        if not len(links) or not any(side.is_cut for side in self._sides):
            return torch.from_numpy(links).long()
        source, target = (side.words_of_pieces(index) for side in self._sides)
        of_words = np.zeros((source[-1] + 1, target[-1] + 1), dtype=bool)
        of_words[tuple(links.T)] = True
        return torch.from_numpy(np.argwhere(of_words[source[:, None], target]))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def prefetch(self, indices: Sequence[int]) -> None:
        """Do nothing: fairseq calls this when it prefetches the sentences themselves."""


def check_guidance(
    model: BaseFairseqModel | None, criterion: FairseqCriterion, option: str
) -> None:
    """Check that links will have an effect.

    Args:
        option: that gives them, for the message.

    Raises:
        UserError: for a model without attention, or a criterion that ignores links.
    """
    if isinstance(model, FairseqEncoderDecoderModel) and not has_alignment(model):
        raise UserError(
            f"{option} needs a model with attention; RNNencdec reads its source through one vector "
            "and has no alignment"
        )
    knows = (AlignmentHeatmapCriterion, LabelSmoothedCrossEntropyCriterionWithAlignment)
    if not isinstance(criterion, knows):
        raise UserError(
            f"{option}: the criterion {type(criterion).__name__} takes no links; "
            "valid: --criterion alignment_heatmap and label_smoothed_cross_entropy_with_alignment"
        )
