"""How alignments emerge: the same sentences drawn after each validation.

    FOLDER/epoch003/sentence0001-update0001200.png    a picture for each sentence and validation
    FOLDER/emerging.gif                               the first sentences through all of these

The number of validations that are kept is bounded; older ones are thinned out evenly.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_rnnsearch.errors import warn_and_continue
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.gallery import write_gallery
from fairseq_rnnsearch.figures.heatmap import save_heatmap
from fairseq_rnnsearch.figures.pictures import PLAIN, Look
from fairseq_rnnsearch.files import remove_unfinished, replacing

if TYPE_CHECKING:
    from PIL.Image import Image

ANIMATION = "emerging.gif"
_NAME = re.compile(r"(sentence|valid)(\d+)-update(\d+)\.png")  # valid, of d09b774, counts from 0
_ANIMATED_SENTENCES, _COLUMNS = 4, 2
# The width of the widest animation and the height of the caption are in dots.
_WIDEST, _CAPTION = 1600, 40
_FRAME_MS, _LAST_FRAME_MS = 400, 2500


@dataclass
class Series:
    """The pictures of one training.

    Args:
        folder: the folder of the series, which is made when there is something to draw.
        formats: some of ``gallery.FORMATS``. ``png`` makes the series; the others are written to
            the epoch's folder, where those of the epoch's last validation remain.
        look: how they look.
        most: how many validations are kept.
    """

    folder: Path
    formats: Sequence[str]
    look: Look = PLAIN
    most: int = 50

    def add(self, epoch: int, update: int, alignments: Sequence[Alignment]) -> dict[int, Path]:
        """Add a validation, thin out older ones and rebuild the animation.

        Returns:
            The new picture of each sentence that could be drawn.

        Raises:
            UserError: when the folder cannot be made, or when a file that is not a picture cannot
                be written.
        """
        folder = self.folder / f"epoch{epoch:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        for one in (self.folder, *self.folder.glob("epoch*")):
            remove_unfinished(one)  # drawn by an earlier run before it was killed
        pictures = {}
        if "png" in self.formats:
            for alignment in alignments:
                path = folder / f"sentence{alignment.id:04d}-update{update:07d}.png"
                with warn_and_continue("heatmaps"):
                    drawn = alignment.source, alignment.target, alignment.weights
                    save_heatmap(path, *drawn, style=self.look.style)
                    pictures[alignment.id] = path
            with warn_and_continue("heatmaps"):
                _animate(self.folder / ANIMATION, self._thin(self.frames()))
        if others := [name for name in self.formats if name != "png"]:
            look = replace(self.look, model=f"epoch {epoch}, after {update:,} updates")
            write_gallery(folder, alignments, others, look)
        return pictures

    def frames(self) -> dict[int, dict[int, Path]]:
        """Return the pictures by update and sentence, in the order of both."""
        pictures: dict[int, dict[int, Path]] = {}
        for path in sorted(self.folder.glob("epoch*/*.png")):
            if name := _NAME.fullmatch(path.name):
                number = int(name[2]) + (name[1] == "valid")
                pictures.setdefault(int(name[3]), {})[number] = path
        return dict(sorted(pictures.items()))

    def _thin(self, frames: dict[int, dict[int, Path]]) -> dict[int, dict[int, Path]]:
        """Remove validations until few enough are left, and return the others.

        Each time, the one with the closest neighbours goes; the first and the last stay.
        """
        updates = list(frames)
        while len(updates) > max(self.most, 2):
            gaps = [after - before for before, after in zip(updates, updates[2:], strict=False)]
            removed = updates.pop(1 + gaps.index(min(gaps)))
            for path in frames.pop(removed).values():
                path.unlink()
                with contextlib.suppress(OSError):  # not empty yet
                    path.parent.rmdir()
        return frames


def _animate(path: Path, frames: dict[int, dict[int, Path]]) -> None:
    """Write the animation; a single frame gives a still picture."""
    places, size = _lay_out(frames)
    drawn = [_frame(update, pictures, places, size) for update, pictures in frames.items()]
    durations = [_FRAME_MS] * (len(drawn) - 1) + [_LAST_FRAME_MS]
    with replacing(path) as unfinished:
        drawn[0].save(
            unfinished, "GIF", save_all=True, append_images=drawn[1:], duration=durations, loop=0
        )


def _lay_out(
    frames: dict[int, dict[int, Path]],
) -> tuple[dict[int, tuple[int, int]], tuple[int, int]]:
    """Place the sentences that are animated, two in a row, as the newest frame needs it.

    Returns:
        The left upper corner of each, and the width and height of all, in dots.
    """
    newest = list(frames[max(frames)].items())[:_ANIMATED_SENTENCES]
    shown = [_grey(path).size for _, path in newest]
    widths = [max(width for width, _ in shown[i::_COLUMNS]) for i in range(len(shown[:_COLUMNS]))]
    rows = [shown[i : i + _COLUMNS] for i in range(0, len(shown), _COLUMNS)]
    heights = [max(height for _, height in row) for row in rows]
    places = {
        sentence: (sum(widths[: i % _COLUMNS]), _CAPTION + sum(heights[: i // _COLUMNS]))
        for i, (sentence, _) in enumerate(newest)
    }
    return places, (sum(widths), _CAPTION + sum(heights))


def _frame(
    update: int,
    pictures: dict[int, Path],
    places: dict[int, tuple[int, int]],
    size: tuple[int, int],
) -> "Image":
    """Draw a validation's pictures under its number."""
    from PIL import Image, ImageDraw, ImageFont

    frame = Image.new("L", size, 255)
    for sentence, place in places.items():
        if sentence in pictures:
            frame.paste(_grey(pictures[sentence]), place)
    if frame.width > _WIDEST:
        frame = frame.resize((_WIDEST, round(frame.height * _WIDEST / frame.width)))
    epoch = int(next(iter(pictures.values())).parent.name.removeprefix("epoch"))
    caption = f"epoch {epoch}, update {update:,}"
    ImageDraw.Draw(frame).text((12, 6), caption, 0, ImageFont.load_default(22))
    return frame


def _grey(path: Path) -> "Image":
    from PIL import Image

    with Image.open(path) as picture:
        return picture.convert("L")
