"""Alignments of translations, drawn when the command that makes them ends.

Drawing beside the search would slow it, batches do not come in the order of their sentences, and
fairseq tells a task nothing of the end of `fairseq-generate` and `fairseq-interactive`. So a task
hands its alignments to a `LateGallery`, which is finished when the command has ended.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from fairseq_rnnsearch.alignment.figures.alignment import Alignment
from fairseq_rnnsearch.alignment.figures.gallery import Gallery
from fairseq_rnnsearch.alignment.figures.styles import PLAIN, Look
from fairseq_rnnsearch.errors import UserError, counted


class LateGallery:
    """Collects alignments in any order, and writes them to a folder once it is finished.

    Args:
        folder: is made at once, so that a mistake is known before the search.
        formats: are some of ``gallery.FORMATS``.
        look: is as for ``gallery.Gallery``.

    Raises:
        UserError: when the folder cannot be made or written.
    """

    def __init__(self, folder: Path, formats: Sequence[str], look: Look = PLAIN) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UserError(f"--heatmap-dir {folder}: {problem.strerror}") from problem
        if not os.access(folder, os.W_OK):
            raise UserError(f"--heatmap-dir {folder}: not writable")
        self._folder = folder
        self._formats = formats
        self._look = look
        self._alignments: list[Alignment] = []

    def add(self, alignment: Alignment) -> None:
        self._alignments.append(alignment)

    def finish(self) -> None:
        """Write what has been collected, with a progress bar on the standard error.

        Raises:
            UserError: when a file cannot be written.
        """
        alignments, self._alignments = self._alignments, []
        if not alignments:
            return
        alignments.sort(key=lambda alignment: alignment.id)
        progress = tqdm(alignments, "drawing alignments", unit="sentence", file=sys.stderr)
        with Gallery(self._folder, self._formats, self._look) as gallery:
            for alignment in progress:
                gallery.add(alignment)
        print(f"{counted(len(alignments), 'alignment')} drawn in {self._folder}", file=sys.stderr)
