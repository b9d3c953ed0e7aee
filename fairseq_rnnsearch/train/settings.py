"""The settings of ``rnnsearch-train``: its options, what a work folder remembers, and defaults."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairseq_rnnsearch.errors import UserError, option_of

_TOKENIZERS = "reversible moses space character"


class Kind(NamedTuple):
    """The valid values of a setting: how to read one, in words, and in a word for the help."""

    read: Callable[[str], Any]
    valid: str
    metavar: str


def _setting(default: Any, meaning: str, *kind: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": meaning, "kind": Kind(*kind)})


def _whole(default: int, meaning: str, least: int = 1) -> Any:
    def read(text: str) -> int:
        if not re.fullmatch(r"-?\d{1,16}", text) or int(text) < least:
            raise ValueError
        return int(text)

    return _setting(default, meaning, read, f"a whole number of {least} or more", "N")


def _number(default: float, meaning: str, most: float = math.inf, least: float = 0) -> Any:
    def read(text: str) -> float:
        value = float(text)
        if not (least <= value < most and math.isfinite(value)):
            raise ValueError
        return value

    ranges = {1: "a probability, at least 0 and below 1", math.inf: "a number of 0 or more"}
    return _setting(default, meaning, read, ranges[most] if least == 0 else "a number", "X")


def _one_of(names: str, default: str, meaning: str) -> Any:
    known = {name: name for name in names.split()}
    valid, metavar = f"one of {', '.join(known)}", f"{{{','.join(known)}}}"
    return _setting(default, meaning, known.__getitem__, valid, metavar)


def _switch(default: bool, meaning: str) -> Any:
    read = {"0": False, "1": True}.__getitem__
    return _setting(default, meaning, read, "0 or 1", "{0,1}")


def _text(default: str, meaning: str) -> Any:
    return _setting(default, meaning, str, "text", "TEXT")


@dataclass(frozen=True)
class Settings:
    """All settings. Those of translation may be changed in a finished work folder."""

    # text
    tokenizer: str = _one_of(
        _TOKENIZERS,
        "reversible",
        "how text is split into words: reversible can be joined to the very text again; moses is"
        " that of most published results; space splits at spaces alone; character makes each"
        " character a token",
    )
    source_tokenizer: str = _one_of(
        _TOKENIZERS, "", "another one for the source; character for text without spaces"
    )
    target_tokenizer: str = _one_of(_TOKENIZERS, "", "the same for the target")
    lowercase: bool = _switch(False, "train and translate in lower case")
    vocabulary: str = _one_of("shortlist bpe", "bpe", "the most frequent words, or subwords (BPE)")
    min_count: int = _whole(3, "how often a word of the shortlist must occur", least=0)
    bpe_merges: int = _whole(8000, "number of merges that make subwords")
    bpe_joint: bool = _switch(True, "both languages share one set of merges")
    bpe_dropout: float = _number(
        0.0, "BPE-dropout (Provilkov et al., 2020): probability to leave a merge out", most=1
    )
    bpe_copies: int = _whole(16, "BPE-dropout: copies of the text, each split in another way")
    bpe_dropout_epochs: int = _whole(
        0, "BPE-dropout: epochs after which it ends; 0: it never does", least=0
    )
    # model
    model: str = _one_of("rnnsearch rnnencdec", "rnnsearch", "rnnencdec has no attention")
    embedding: int = _whole(256, "size of a word's embedding, the paper's m")
    hidden: int = _whole(256, "hidden units of the decoder and of each encoder, the paper's n")
    attention: int = _whole(256, "hidden units of the alignment model, the paper's n'")
    maxout: int = _whole(256, "maxout units of the output, the paper's l")
    decoder_order: str = _one_of(
        "program appendix section3", "program", "order in which a decoder step updates and scores"
    )
    initialization: str = _one_of(
        "appendix uniform", "appendix", "of the parameters: the paper's, or that of fairseq's lstm"
    )
    dropout: float = _number(0.3, "dropout of embeddings and readout", most=1)
    rdrop: float = _number(0.0, "weight of R-Drop (Liang et al., 2021), once BPE-dropout has ended")
    # training
    longest: int = _whole(
        50, "maximum length of a training sentence in words or pieces; 0: none", least=0
    )
    optimizer: str = _one_of(
        "adam adadelta", "adam", "adadelta is the paper's, with its cost; it needs far more updates"
    )
    learning_rate: float = _number(0.0015, "Adam's learning rate")
    warmup: int = _whole(300, "updates until the learning rate is reached", least=0)
    lr_scheduler: str = _one_of(
        "polynomial_decay fixed",
        "polynomial_decay",
        "the learning rate then falls linearly to the end, or stays",
    )
    clip_norm: float = _number(1.0, "maximum norm of a gradient")
    label_smoothing: float = _number(0.1, "label smoothing of the cost", most=1)
    batch_size: int = _whole(80, "pairs per update")
    batch_order: str = _one_of("fairseq paper", "fairseq", "fairseq shuffles anew in each epoch")
    updates: int = _whole(6000, "length of the training")
    patience: int = _whole(-1, "epochs without improvement that end it; -1: never", least=-1)
    valid_bleu: bool = _switch(False, "BLEU of greedy translations, not the cost, is what improves")
    average: int = _whole(5, "number of best checkpoints to keep")
    seed: int = _whole(1, "seed of all that is random", least=0)
    train_options: str = _text("", "further options of fairseq-train, separated by spaces")
    # translation
    evaluate: str = _one_of(
        "test valid", "test", "what is translated and scored; valid while settings are being chosen"
    )
    checkpoint: str = _one_of(
        "best average", "best", "which model translates: the best one, or the mean of the best ones"
    )
    ensemble: str = _text(
        "", "work folders, separated by spaces, whose models translate together with this one"
    )
    beam: int = _whole(12, "width of the search")
    length_penalty: float = _number(1.0, "above 1, translations are longer", least=-math.inf)
    unknown: str = _one_of(
        "forbid keep replace",
        "forbid",
        "unknown words: never written, written, or replaced by the source word of most weight",
    )
    drawn: int = _whole(50, "number of alignments to draw", least=0)
    bleu_tokenizer: str = _one_of(
        "13a none zh char intl ja-mecab ko-mecab flores101 flores200 spBLEU-1K",
        "13a",
        "sacreBLEU's; char is for text without spaces",
    )

    @property
    def tokenizers(self) -> tuple[str, str]:
        """Those of the source and of the target."""
        return self.source_tokenizer or self.tokenizer, self.target_tokenizer or self.tokenizer


FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
OF_SIDES = ("source_tokenizer", "target_tokenizer")
_FIRST = {"tokenizer": "text", "model": "model", "longest": "training", "evaluate": "translation"}


def groups() -> dict[str, list[str]]:
    """Return the names of the settings of text, model, training and translation."""
    of_groups: dict[str, list[str]] = {}
    for name in FIELDS:
        if name in _FIRST:
            group = of_groups.setdefault(_FIRST[name], [])
        group.append(name)
    return of_groups


def as_argument(value: Any) -> str:
    """Return a value as commands take it, without a needless decimal point."""
    if isinstance(value, bool) or (isinstance(value, float) and value == int(value)):
        return str(int(value))
    return str(value)


class Naming(NamedTuple):
    """How messages name settings: as options, or as variables of the environment.

    Attributes:
        languages: of the source and the target; TOKENIZER_fr is a variable of one of them.
    """

    in_environment: bool
    languages: tuple[str, str]

    def name(self, setting: str) -> str:
        """Return the name that the user gives."""
        if not self.in_environment:
            return option_of(setting)
        if setting in OF_SIDES:
            return f"TOKENIZER_{self.languages[OF_SIDES.index(setting)]}"
        return setting.upper()

    def shown(self, setting: str, value: Any) -> str:
        """Return the setting as the user gives it."""
        return f"{self.name(setting)}{'=' if self.in_environment else ' '}{as_argument(value)}"


def in_environment(environment: Mapping[str, str], naming: Naming) -> dict[str, str]:
    """Return the texts of the settings that are set as variables, empty ones excluded."""
    return {name: text for name in FIELDS if (text := environment.get(naming.name(name)))}


def read(given: Mapping[str, str], naming: Naming) -> dict[str, Any]:
    """Return the values that texts mean.

    Raises:
        UserError: one is not valid.
    """
    values = {}
    for name, text in given.items():
        kind: Kind = FIELDS[name].metadata["kind"]
        try:
            values[name] = kind.read(text)
        except (ValueError, KeyError):
            shown = naming.shown(name, text)
            raise UserError(f"{shown}: must be {kind.valid}") from None
    return values


def check(settings: Settings, naming: Naming) -> None:
    """Check settings against each other.

    Raises:
        UserError: some do not go together.
    """

    def shown(name: str) -> str:
        return naming.shown(name, getattr(settings, name))

    if set(settings.tokenizers) == {"character"} and settings.vocabulary == "bpe":
        needed = naming.shown("vocabulary", "shortlist")
        raise UserError(f"{shown('vocabulary')}: characters have no subwords; give {needed}")
    if settings.bpe_dropout and settings.vocabulary != "bpe":
        needed = naming.shown("vocabulary", "bpe")
        raise UserError(f"{shown('bpe_dropout')} needs subwords: {needed}")
    if settings.rdrop and not settings.dropout:
        raise UserError(f"{shown('rdrop')} needs {naming.name('dropout')} above 0")
    if settings.rdrop and settings.bpe_dropout and not settings.bpe_dropout_epochs:
        needed = naming.name("bpe_dropout_epochs")
        raise UserError(f"{shown('rdrop')} is for epochs without BPE-dropout: give {needed}")


# --- by the number of pairs ---------------------------------------------------------------------


class _Size(NamedTuple):
    """Below so many pairs: epochs, and the settings that differ."""

    pairs: float
    epochs: int
    units: tuple[int, int, int, int]
    dropout: float
    bpe_merges: int
    bpe_dropout: tuple[int, int, float] | None  # its epochs and copies, and the R-Drop after it
    further: dict[str, float]


# For less than 20,000 pairs they were measured on 10,000 of Tatoeba, and from there to 200,000 on
# 151,821 of it and on Multi30k (recipes/RESULTS.md). For more, the model grows towards the paper's,
# unmeasured.
_SIZES = (
    _Size(20_000, 30, (128, 192, 128, 128), 0.4, 3000, (20, 10, 3.0), {}),
    _Size(200_000, 17, (256, 256, 256, 256), 0.3, 8000, (11, 9, 2.0), {}),
    _Size(2_000_000, 8, (512, 512, 512, 512), 0.2, 16000, None, {"learning_rate": 0.0007}),
    _Size(
        *(math.inf, 5, (620, 1000, 1000, 500), 0, 30000, None),
        {"learning_rate": 0.0004, "warmup": 4000},
    ),
)
_LEAST_UPDATES = 1500  # fewer may end before the alignment has been learned


def for_corpus(given: Mapping[str, Any], pairs: int) -> Settings:
    """Return the settings for a corpus; those that are given stay."""
    size = next(size for size in _SIZES if pairs < size.pairs)
    units = zip(("embedding", "hidden", "attention", "maxout"), size.units, strict=True)
    by_size = {"dropout": size.dropout, "bpe_merges": size.bpe_merges, **dict(units)}
    chosen = {**by_size, **size.further, **given}
    if set(Settings(**chosen).tokenizers) == {"character"}:
        chosen.setdefault("vocabulary", "shortlist")
    settings = Settings(**chosen)
    if size.bpe_dropout and settings.vocabulary == "bpe" and settings.dropout:
        # what paid on Multi30k
        paid = {"bpe_dropout": 0.1, "initialization": "uniform", "checkpoint": "average"}
        if chosen.get("bpe_dropout", paid["bpe_dropout"]):
            names = "bpe_dropout_epochs", "bpe_copies", "rdrop"
            paid |= zip(names, size.bpe_dropout, strict=True)
            if chosen.get("bpe_dropout_epochs") == 0:  # it never ends, and R-Drop never begins
                del paid["rdrop"]
        if settings.optimizer == "adam":
            paid["learning_rate"] = 0.003
        chosen = paid | chosen
    chosen.setdefault("updates", max(pairs * size.epochs // settings.batch_size, _LEAST_UPDATES))
    return Settings(**chosen)
