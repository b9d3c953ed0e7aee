"""How alignments emerge: the same sentences drawn again and again while a model is trained.

    FOLDER/epoch003/valid0000-update0001200.png    a picture for each sentence and validation
    FOLDER/emerging.gif                            the first sentences through all of these

The number of validations that are kept is bounded; older ones are thinned out evenly.
"""

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_rnnsearch.alignment.figures.alignment import Alignment
from fairseq_rnnsearch.alignment.figures.gallery import write_gallery
from fairseq_rnnsearch.alignment.figures.heatmap import MOST_DOTS, save_heatmap
from fairseq_rnnsearch.alignment.figures.pictures import PLAIN, Look
from fairseq_rnnsearch.errors import UserError, training_goes_on
from fairseq_rnnsearch.files import make_folder, remove_unfinished, replacing, write_text

if TYPE_CHECKING:
    from PIL.Image import Image

ANIMATION = "emerging.gif"
OWNER = ".training"
_EPOCH = re.compile(r"epoch\d+")
_NAME = re.compile(r"valid(\d+)-update(\d+)\.png")
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
        most: how many validations are kept; 0 keeps all.
        save_dir: the training's ``--save-dir``, if other trainings might draw into the same folder.
            The folder is then marked as this training's.
        look: how they look.

    Raises:
        UserError: a negative number of validations.
    """

    folder: Path
    formats: Sequence[str]
    most: int
    save_dir: Path | None = None
    look: Look = PLAIN

    def __post_init__(self) -> None:
        if self.most < 0:
            raise UserError(f"--heatmap-keep {self.most}: must be 0 (all validations) or more")

    def add(self, epoch: int, update: int, alignments: Sequence[Alignment]) -> dict[int, Path]:
        """Draw a validation's sentences, drop the most dispensable validation, renew the animation.

        Returns:
            The new picture of each sentence that could be drawn.

        Raises:
            UserError: when the folder cannot be made or is another training's, or when a file that
                is not a picture cannot be written.
        """
        folder = self.folder / f"epoch{epoch:03d}"
        make_folder(folder)
        self._claim()
        for one in (self.folder, *self._epoch_folders()):
            remove_unfinished(one)  # what an earlier run drew when it was killed
        pictures = {}
        if "png" in self.formats:
            for alignment in alignments:
                path = folder / f"valid{alignment.id:04d}-update{update:07d}.png"
                with training_goes_on("heatmaps"):
                    words = alignment.source, alignment.target
                    save_heatmap(path, *words, alignment.weights, style=self.look.style)
                    pictures[alignment.id] = path
            with training_goes_on("heatmaps"):
                _animate(self.folder / ANIMATION, self._thin(self.frames()))
        if others := [name for name in self.formats if name != "png"]:
            look = replace(self.look, model=f"epoch {epoch}, after {update:,} updates")
            write_gallery(folder, alignments, others, look)
        return pictures

    def _claim(self) -> None:
        """Mark the folder as this training's, so that no other overwrites or removes pictures.

        The mark still holds when both folders are moved together.

        Raises:
            UserError: for a mark of another training.
        """
        if self.save_dir is None:
            return
        mark = self.folder / OWNER
        this_training = os.path.relpath(self.save_dir.resolve(), self.folder.resolve())
        if not mark.exists():
            write_text(mark, f"{this_training}\n")
        owner = mark.read_text(encoding="utf-8").removesuffix("\n")
        if owner != this_training:
            raise UserError(
                f"heatmap folder {self.folder} is that of another training (--save-dir "
                f"{self.folder / owner}): name another --heatmap-dir"
            )

    def frames(self) -> dict[int, dict[int, Path]]:
        """Return the pictures by update and sentence, in the order of both."""
        pictures: dict[int, dict[int, Path]] = {}
        for folder in self._epoch_folders():
            for path in sorted(folder.iterdir()):
                if name := _NAME.fullmatch(path.name):
                    pictures.setdefault(int(name[2]), {})[int(name[1])] = path
        return dict(sorted(pictures.items()))

    def _epoch_folders(self) -> list[Path]:
        """Return this training's own folders; a link might lead to those of another training."""
        return [
            path
            for path in sorted(self.folder.glob("epoch*"))
            if _EPOCH.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        ]

    def _thin(self, frames: dict[int, dict[int, Path]]) -> dict[int, dict[int, Path]]:
        """Remove validations until few enough are left, and return the others.

        Each time, the one with the closest neighbours goes; the first and the last stay.
        """
        updates = list(frames)

        def gap_without(i: int) -> int:
            return updates[i + 1] - updates[i - 1]

        while self.most and len(updates) > max(self.most, 2):
            removed = updates.pop(min(range(1, len(updates) - 1), key=gap_without))
            for path in frames.pop(removed).values():
                with contextlib.suppress(OSError):
                    path.unlink()
                with contextlib.suppress(OSError):  # not empty yet
                    path.parent.rmdir()
        return frames


def _animate(path: Path, frames: dict[int, dict[int, Path]]) -> None:
    """Write the animation of the readable pictures; a single frame gives a still picture."""
    places, size = _lay_out(frames)
    drawn = [_frame(update, pictures, places, size) for update, pictures in frames.items()]
    drawn = [frame for frame in drawn if frame is not None]
    if not drawn:
        return
    durations = [_FRAME_MS] * (len(drawn) - 1) + [_LAST_FRAME_MS]
    animation = {"save_all": True, "append_images": drawn[1:], "duration": durations, "loop": 0}
    with replacing(path) as unfinished:
        drawn[0].save(unfinished, format="GIF", **animation)


def _lay_out(
    frames: dict[int, dict[int, Path]],
) -> tuple[dict[int, tuple[int, int]], tuple[int, int]]:
    """Place the sentences that are animated, two in a row, as the newest frame needs it.

    Returns:
        The left upper corner of each, and the width and height of all, in dots.
    """
    sizes: dict[int, tuple[int, int]] = {}
    for update in reversed(frames):
        for sentence, path in frames[update].items():
            if len(sizes) < _ANIMATED_SENTENCES and (grey := _grey(path)):
                sizes[sentence] = grey.size
        if sizes:
            break
    shown = list(sizes.values())
    widths = [max(width for width, _ in shown[i::_COLUMNS]) for i in range(len(shown[:_COLUMNS]))]
    rows = [shown[i : i + _COLUMNS] for i in range(0, len(shown), _COLUMNS)]
    heights = [max(height for _, height in row) for row in rows]
    places = {
        sentence: (sum(widths[: i % _COLUMNS]), _CAPTION + sum(heights[: i // _COLUMNS]))
        for i, sentence in enumerate(sizes)
    }
    return places, (sum(widths), _CAPTION + sum(heights))


def _frame(
    update: int,
    pictures: dict[int, Path],
    places: dict[int, tuple[int, int]],
    size: tuple[int, int],
) -> "Image | None":
    """Draw a validation's pictures under its number; return None where none can be read."""
    from PIL import Image, ImageDraw, ImageFont

    frame, is_empty = Image.new("L", size, 255), True
    for sentence, place in places.items():
        if sentence in pictures and (grey := _grey(pictures[sentence])):
            frame.paste(grey, place)
            is_empty = False
    if is_empty:
        return None
    if frame.width > _WIDEST:
        frame = frame.resize((_WIDEST, round(frame.height * _WIDEST / frame.width)))
    epoch = int(next(iter(pictures.values())).parent.name.removeprefix("epoch"))
    caption = f"epoch {epoch}, update {update:,}"
    ImageDraw.Draw(frame).text((12, 6), caption, 0, ImageFont.load_default(22))
    return frame


def _grey(path: Path) -> "Image | None":
    """Read a picture; return None for a damaged file, or one larger than any that is drawn here."""
    from PIL import Image

    # PIL raises exceptions of all kinds for a damaged file.
    with contextlib.suppress(Exception), Image.open(path) as picture:
        if picture.width * picture.height <= MOST_DOTS:
            return picture.convert("L")
    return None
