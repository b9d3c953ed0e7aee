"""How alignments emerge: the same sentences drawn again and again while a model is trained.

    FOLDER/epoch003/valid0000-update0001200.png    a picture for each sentence and validation
    FOLDER/emerging.gif                            the first sentences through all of these

The number of validations that are kept is bounded; older ones are thinned out evenly.
"""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures.alignment import Alignment
from fairseq_rnnsearch.figures.gallery import write_gallery
from fairseq_rnnsearch.figures.heatmap import save_heatmap
from fairseq_rnnsearch.files import replacing

if TYPE_CHECKING:
    from PIL.Image import Image

ANIMATION = "emerging.gif"
_NAME = re.compile(r"valid(\d+)-update(\d+)\.png")
_ANIMATED_SENTENCES, _COLUMNS = 4, 2
_WIDEST = 1600  # dots
_CAPTION = 40  # dots
_FRAME_MS, _LAST_FRAME_MS = 400, 2500


class Series:
    """The pictures of one training.

    Args:
        folder: made when there is something to draw.
        formats: of ``figures.gallery``. ``png`` makes the series; the others are written to the
            epoch's folder, where those of the epoch's last validation remain.
        most: validations to keep; 0 keeps all.

    Raises:
        UserError: a negative number of validations.
    """

    def __init__(self, folder: Path, formats: Sequence[str], most: int) -> None:
        if most < 0:
            raise UserError(f"--heatmap-keep {most}: must be 0 (all validations) or more")
        self._folder = folder
        self._formats = formats
        self._most = most

    def add(self, epoch: int, update: int, alignments: Sequence[Alignment]) -> dict[int, Path]:
        """Draw a validation's sentences, forget the most dispensable one, renew the animation.

        Returns:
            The new picture of each sentence.

        Raises:
            UserError: when something cannot be written.
        """
        folder = self._folder / f"epoch{epoch:03d}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise UserError(f"heatmap folder {folder}: {problem.strerror}") from problem
        pictures = {}
        if "png" in self._formats:
            for shown in alignments:
                path = folder / f"valid{shown.id:04d}-update{update:07d}.png"
                save_heatmap(path, shown.source, shown.target, shown.weights)
                pictures[shown.id] = path
            kept = self._thin(self.frames())
            _animate(self._folder / ANIMATION, kept)
        if others := [name for name in self._formats if name != "png"]:
            write_gallery(folder, alignments, others)
        return pictures

    def frames(self) -> dict[int, dict[int, Path]]:
        """Pictures by update and sentence, in the order of both."""
        found: dict[int, dict[int, Path]] = {}
        for path in sorted(self._folder.glob("epoch*/valid*-update*.png")):
            if name := _NAME.fullmatch(path.name):
                found.setdefault(int(name[2]), {})[int(name[1])] = path
        return dict(sorted(found.items()))

    def _thin(self, frames: dict[int, dict[int, Path]]) -> dict[int, dict[int, Path]]:
        """Remove those between whose neighbours the smallest gap remains; never first or last."""
        updates = list(frames)

        def gap_without(i: int) -> int:
            return updates[i + 1] - updates[i - 1]

        while self._most and len(updates) > max(self._most, 2):
            removed = updates.pop(min(range(1, len(updates) - 1), key=gap_without))
            for path in frames.pop(removed).values():
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                with contextlib.suppress(OSError):  # not empty yet
                    path.parent.rmdir()
        return frames


def _animate(path: Path, frames: dict[int, dict[int, Path]]) -> None:
    """Write the animation; a single frame is a picture that stands still."""
    places, size = _lay_out(frames)
    drawn = [_frame(update, pictures, places, size) for update, pictures in frames.items()]
    durations = [_FRAME_MS] * (len(drawn) - 1) + [_LAST_FRAME_MS]
    with replacing(path) as unfinished:
        drawn[0].save(
            unfinished,
            format="GIF",
            save_all=True,
            append_images=drawn[1:],
            duration=durations,
            loop=0,
        )


def _lay_out(
    frames: dict[int, dict[int, Path]],
) -> tuple[dict[int, tuple[int, int]], tuple[int, int]]:
    """Corner of each animated sentence, two in a row, and the size of all."""
    from PIL import Image

    newest = frames[max(frames)]
    sizes = []
    for path in list(newest.values())[:_ANIMATED_SENTENCES]:
        with Image.open(path) as picture:
            sizes.append(picture.size)
    widths = [max(width for width, _ in sizes[i::_COLUMNS]) for i in range(len(sizes[:_COLUMNS]))]
    rows = [sizes[i : i + _COLUMNS] for i in range(0, len(sizes), _COLUMNS)]
    heights = [max(height for _, height in row) for row in rows]
    places = {
        sentence: (sum(widths[: i % _COLUMNS]), _CAPTION + sum(heights[: i // _COLUMNS]))
        for i, sentence in enumerate(list(newest)[:_ANIMATED_SENTENCES])
    }
    return places, (sum(widths), _CAPTION + sum(heights))


def _frame(
    update: int,
    pictures: dict[int, Path],
    places: dict[int, tuple[int, int]],
    size: tuple[int, int],
) -> "Image":
    from PIL import Image, ImageDraw, ImageFont

    frame = Image.new("L", size, 255)
    for sentence, place in places.items():
        if sentence in pictures:
            with Image.open(pictures[sentence]) as picture:
                frame.paste(picture.convert("L"), place)
    if frame.width > _WIDEST:
        frame = frame.resize((_WIDEST, round(frame.height * _WIDEST / frame.width)))
    epoch = int(next(iter(pictures.values())).parent.name.removeprefix("epoch"))
    caption = f"epoch {epoch}, update {update:,}"
    ImageDraw.Draw(frame).text((12, 6), caption, 0, ImageFont.load_default(22))
    return frame
