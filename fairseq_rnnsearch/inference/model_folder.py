"""A model as a folder of plain files, for sharing: nothing in it can run code.

    model.safetensors     matrices: float32, float16, or int8 with one scale for each row
    config.json           architecture, sizes, languages, limit of length, version
    dict.*.txt            the dictionaries, as fairseq-preprocess wrote them
    preprocessing.json    how text becomes tokens, and the BPE codes that it names
    README.md             the model card
    SHA256SUMS            digests of all of them

``rnnsearch-export`` writes one. ``load`` and the commands take it wherever they take a checkpoint.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fairseq_rnnsearch import __version__
from fairseq_rnnsearch.data import plain_text
from fairseq_rnnsearch.data.checksums import check_checksum, write_list
from fairseq_rnnsearch.data.dictionary_file import Dictionary, read_dictionary, written
from fairseq_rnnsearch.data.model_folders import PARAMETERS
from fairseq_rnnsearch.data.removed_options import drop_removed
from fairseq_rnnsearch.decoding.length_limit import LengthLimit, stored
from fairseq_rnnsearch.errors import UserError, as_text, first_sentence
from fairseq_rnnsearch.files import make_folder, open_plain, read_json, refuse_link_to_nothing
from fairseq_rnnsearch.model.model_options import ModelOptions
from fairseq_rnnsearch.model.translation_model import PlainModel, TranslationModel

CONFIG, CARD = "config.json", "README.md"
_TYPES = ("F32", "F16")  # and, for matrices, I8
_SCALE = ".scale"  # behind the name of a matrix that is stored in 8 bits
_LARGEST_CONFIG = 1_000_000  # bytes, and of the names and sizes of all parameters
_LARGEST_TEXT = 2**25  # bytes of a dictionary: some millions of words
_BYTES = 8  # of a number at most, its row's scale included
_FORMAT = "fairseq_rnnsearch 1"


class Facts(NamedTuple):
    """The contents of ``config.json``.

    Attributes:
        architecture: as ``--arch``.
        options: the model's options, by their names in `ModelOptions`.
        languages: of the source and the target.
        left_pad_source: whether shorter sentences in a batch are padded on the left.
        length_limit: the maximum length of a translation.
        licence: a line about the training data, which pages show.
    """

    architecture: str
    options: dict[str, Any]
    languages: tuple[str, str]
    left_pad_source: bool
    length_limit: LengthLimit
    licence: str = ""


class ModelFolder(NamedTuple):
    """A folder that has been read."""

    path: Path
    facts: Facts
    dictionaries: tuple[Dictionary, Dictionary]
    model: PlainModel


class Trained(NamedTuple):
    """The models of an ensemble, of folders or checkpoints, and what they share.

    Attributes:
        data: the folder with the dictionaries and ``preprocessing.json``.
        options: fairseq's, of the last checkpoint's model, with its architecture as ``_name``.
    """

    models: Sequence[torch.nn.Module]
    dictionaries: tuple[Any, Any]
    languages: tuple[str, str]
    data: Path
    left_pad_source: bool
    length_limit: LengthLimit
    options: Any = None


# --- writing -------------------------------------------------------------------------------------


def write_folder(
    out: Path,
    model: TranslationModel,
    facts: Facts,
    dictionaries: tuple[Any, Any],
    data: Path,
    *,
    weights: str = "float32",
    card: str | None = None,
) -> None:
    """Write a model's folder, whole or not at all.

    Args:
        data: the folder with the training's preprocessing.json and BPE codes.
        weights: how to store matrices, one of ``arguments.WEIGHTS``; vectors stay float32.
        card: text of the README.md (default: one from the facts).

    Raises:
        UserError: if the folder exists already, or float16 cannot hold the parameters.
    """
    refuse_link_to_nothing(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {out}: is there already; name a new folder")
    try:
        out = out.resolve()  # a link stays
        make_folder(out.parent)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as unfinished:
            folder = Path(unfinished) / out.name
            folder.mkdir()
            (folder / PARAMETERS).write_bytes(save(dict(_as_stored(model, weights))))
            for language, dictionary in zip(facts.languages, dictionaries, strict=True):
                (folder / f"dict.{language}.txt").write_text(written(dictionary), encoding="utf-8")
            _copy_preprocessing(data, facts.languages, folder)
            (folder / CONFIG).write_text(_config(facts, weights), encoding="utf-8")
            text = _card(model, facts, weights) if card is None else card
            (folder / CARD).write_text(text, encoding="utf-8")
            write_list(folder, sorted(path.name for path in folder.iterdir()))
            folder.replace(out)
    except OSError as problem:
        raise UserError(f"--out {out}: {problem.strerror or problem}") from problem


def _as_stored(model: TranslationModel, weights: str) -> Iterator[tuple[str, torch.Tensor]]:
    for name, parameter in model.named_parameters():
        values = parameter.detach().float().cpu().contiguous()
        if weights == "float32" or values.dim() == 1:
            yield name, values
        elif weights == "int8":
            steps, scales = quantised(values.numpy())
            yield name, torch.from_numpy(steps)
            yield name + _SCALE, torch.from_numpy(scales)
        elif not torch.isfinite(half := values.half()).all():
            raise UserError(
                f"--weights float16: {name} has numbers up to {values.abs().max():.3g}, and "
                f"float16 ends at {torch.finfo(torch.float16).max:,.0f}; expected float32 or int8"
            )
        else:
            yield name, half


def quantised(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round a matrix; return its 8-bit numbers and its rows' scales."""
    scales = np.abs(values).max(axis=1).astype(np.float32) / np.float32(127)
    steps = np.divide(values, scales[:, None], out=np.zeros_like(values), where=scales[:, None] > 0)
    return np.rint(steps).astype(np.int8), scales


def _copy_preprocessing(data: Path, languages: tuple[str, str], folder: Path) -> None:
    settings = {}
    for language, of_language in plain_text.settings_of(data).items():
        if language not in languages:
            continue
        settings[language] = of_language
        if codes := of_language.get("bpe_codes"):
            own = f"codes.{language}"  # no other file's name
            shutil.copyfile(data / codes, folder / own)
            settings[language] = of_language | {"bpe_codes": own}
    plain_text.write_settings(folder, settings)


def _config(facts: Facts, weights: str) -> str:
    described = {"format": _FORMAT, "version": __version__, **facts._asdict(), "weights": weights}
    return json.dumps(described, ensure_ascii=False, indent=1) + "\n"


def _card(model: TranslationModel, facts: Facts, weights: str) -> str:
    numbers = sum(parameter.numel() for parameter in model.parameters())
    options = "\n".join(f"| `{name}` | {value} |" for name, value in facts.options.items())
    source, target = facts.languages
    return f"""---
language:
- {source}
- {target}
library_name: fairseq_rnnsearch
pipeline_tag: translation
---

# {facts.architecture}, {source} to {target}

The model of "Neural Machine Translation by Jointly Learning to Align and Translate" (Bahdanau, Cho
and Bengio, ICLR 2015), {numbers:,} parameters, stored in {weights}. Nobody has written yet what it
was trained on, how well it translates and what it is not good for: `rnnsearch-export --card FILE`
takes such a text.

```python
from fairseq_rnnsearch import load

print(load("THIS_FOLDER").translate("...").text)
```

| option | value |
|---|---|
{options}
"""


# --- reading -------------------------------------------------------------------------------------


def read_folder(path: Path) -> ModelFolder:
    """Read a model's folder.

    Sizes are checked against the file before memory is allocated.

    Raises:
        UserError: naming the file and what is wrong with it.
    """
    facts = read_facts(path)
    names = [f"dict.{language}.txt" for language in facts.languages]
    codes = [of_language.get("bpe_codes") for of_language in plain_text.settings_of(path).values()]
    for name in (CONFIG, plain_text.FILE_NAME, *names, *filter(None, codes), PARAMETERS):
        _check_file(path / name, None if name == PARAMETERS else _LARGEST_TEXT)
        if name != PARAMETERS:  # its size is checked first
            check_checksum(path / name, "rnnsearch-export")
    source, target = (read_dictionary(path / name) for name in names)
    return ModelFolder(path, facts, (source, target), _model(path, facts, source, target))


def _check_file(path: Path, most: int | None) -> None:
    """Check that a file is there, is a plain file, and has at most so many bytes."""
    try:
        with open_plain(path, most):
            pass
    except FileNotFoundError:
        raise UserError(f"{path.parent} is not a complete model: it lacks {path.name}") from None
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}") from problem


def read_facts(path: Path) -> Facts:
    """Read and check ``config.json``.

    Raises:
        UserError: naming the entry that is wrong.
    """
    file = path / CONFIG
    try:
        config = read_json(file, _LARGEST_CONFIG)
    except OSError as problem:
        raise UserError(f"{file} cannot be read: {problem.strerror}") from problem
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{file} cannot be read: {first_sentence(problem):.200}") from problem
    if not isinstance(config, dict) or config.get("format") != _FORMAT:
        raise UserError(f'{file}: must be an object with "format": "{_FORMAT}"')
    languages, options = config.get("languages"), config.get("options")
    if (
        not isinstance(languages, list)
        or len(languages) != 2
        or not all(isinstance(name, str) and _is_file_part(name) for name in languages)
    ):
        raise UserError(f'{file}: languages must be two names, such as ["en", "fr"]')
    if not isinstance(options, dict):
        raise UserError(f"{file}: options must be an object with the model's sizes")
    try:
        drop_removed(options)
    except UserError as problem:
        raise UserError(f"{file}: options: {problem}") from None
    if not isinstance(config.get("architecture"), str):
        raise UserError(f"{file}: architecture must be a name, such as rnnsearch_50")
    if not isinstance(config.get("licence", ""), str):
        raise UserError(f"{file}: licence must be a line of text")
    return Facts(
        config["architecture"],
        options,
        (languages[0], languages[1]),
        config.get("left_pad_source") is True,
        stored(config.get("length_limit")),
        as_text(config.get("licence", "")),
    )


def _is_file_part(name: str) -> bool:
    return name.replace("-", "").replace("_", "").isalnum() and len(name.encode()) < 100


def _model(path: Path, facts: Facts, source: Dictionary, target: Dictionary) -> PlainModel:
    known = {option.name for option in fields(ModelOptions)}
    if unknown := facts.options.keys() - known:
        raise UserError(
            f"{path / CONFIG}: options: {min(unknown):.200} is not an option of the model"
        )
    try:
        with torch.device("meta"):  # shapes alone, until the file has them
            model = PlainModel(ModelOptions(**facts.options), source, target)
    except UserError as mistake:
        raise UserError(f"{path / CONFIG}: options: {mistake!s:.200}") from mistake
    expected = {name: tuple(one.shape) for name, one in model.state_dict().items()}
    most = _LARGEST_CONFIG + _BYTES * sum(map(math.prod, expected.values()))
    try:
        with open_plain(path / PARAMETERS, most) as file:
            if int.from_bytes(file.read(8), "little") > _LARGEST_CONFIG:
                raise UserError(
                    f"{path / PARAMETERS} is no safetensors file (such as a pointer of Git LFS), or"
                    " names more than a model has"
                )
        with safe_open(path / PARAMETERS, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            _check_stored(path, expected, slices)
            check_checksum(path / PARAMETERS, "rnnsearch-export")
            parameters = {name: _values(file, name, slices) for name in expected}
    except (SafetensorError, OSError) as problem:
        truncated = f"{first_sentence(problem):.200}; it may be truncated"
        said = getattr(problem, "strerror", None) or truncated
        raise UserError(f"{path / PARAMETERS} cannot be read: {said}") from problem
    try:
        model.load_state_dict(model.checked(parameters), assign=True)
    except UserError as mistake:
        raise UserError(f"{path / PARAMETERS}: {mistake}") from mistake
    return model.eval()


def _check_stored(path: Path, expected: dict[str, tuple[int, ...]], slices: dict[str, Any]) -> None:
    """Check the sizes and types of all parameters, and of the scales of those in 8 bits.

    Raises:
        UserError: naming the first that the model does not take.
    """
    file = path / PARAMETERS
    wanted = {name: (shape, _TYPES) for name, shape in expected.items()}
    for name, shape in expected.items():
        if name in slices and slices[name].get_dtype() == "I8" and len(shape) > 1:
            wanted |= {name: (shape, ("I8",)), name + _SCALE: (shape[:1], ("F32",))}
    if differing := sorted(wanted.keys() ^ slices.keys()):
        has = "lacks" if differing[0] in wanted else "must not have"
        raise UserError(f"{file} {has} {differing[0]:.100}, by the options in {CONFIG}")
    for name, (shape, types) in wanted.items():
        sizes, kind = tuple(slices[name].get_shape()), slices[name].get_dtype()
        if sizes != shape or kind not in types:
            raise UserError(
                f"{file}: {name} has the sizes {sizes!s:.100}, of {kind}; {CONFIG} and the "
                f"dictionaries ask for {shape}, of {' or '.join(types)}"
            )


def _values(file: Any, name: str, slices: dict[str, Any]) -> torch.Tensor:
    """Return a parameter as float32."""
    values = file.get_tensor(name).float()
    if name + _SCALE in slices:
        values *= file.get_tensor(name + _SCALE)[:, None]
    return values
