"""Alignments of translations, drawn when the program that translates has ended.

Drawing beside the search would slow it.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from fairseq_rnnsearch.compat.programs import at_the_end
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment, write_gallery


class HypothesisGallery:
    """Collects alignments and writes them to ``folder`` when the program has ended.

    Args:
        folder: made at once, so that a folder that cannot be written is known before the search.
        formats: from ``figures.gallery.FORMATS``.

    Raises:
        UserError: when the folder cannot be made or written.
    """

    def __init__(self, folder: Path, formats: Sequence[str]) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UserError(f"--heatmap-dir {folder}: {problem.strerror}") from problem
        if not os.access(folder, os.W_OK):
            raise UserError(f"--heatmap-dir {folder}: not writable")
        self._folder = folder
        self._formats = formats
        self._alignments: list[Alignment] = []
        at_the_end(self.write)

    def add(self, alignment: Alignment) -> None:
        self._alignments.append(alignment)

    def write(self) -> None:
        """Write what has been collected so far.

        Raises:
            UserError: when a file cannot be written.
        """
        if not self._alignments:
            return

        def progress(alignments: Sequence[Alignment]) -> tqdm:
            return tqdm(alignments, desc="drawing alignments", unit="sentence", file=sys.stderr)

        write_gallery(self._folder, self._alignments, self._formats, progress)
        print(f"{len(self._alignments)} alignments drawn in {self._folder}", file=sys.stderr)
