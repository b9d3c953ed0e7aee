"""The settings of ``rnnsearch-train``: its options, their defaults, and fairseq's."""

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_rnnsearch.checks import at_least
from fairseq_rnnsearch.errors import UsageError, option_of
from fairseq_rnnsearch.text.tokenizers import TOKENIZERS

_TOKENIZERS = " ".join(TOKENIZERS)


def _setting(default: Any, meaning: str, **of_argparse: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": meaning, **of_argparse})


def _whole(default: int, meaning: str, least: int = 1) -> Any:
    return _setting(default, meaning, type=at_least(least), metavar="N")


def _number(default: float, meaning: str, below: float = math.inf) -> Any:
    return _setting(default, meaning, type=at_least(0, below, float), metavar="X")


def _one_of(names: str, default: str, meaning: str) -> Any:
    return _setting(default, meaning, choices=names.split())


def _switch(default: bool, meaning: str) -> Any:
    return _setting(default, meaning, type=int, choices=(0, 1))


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
        0.0, "BPE-dropout (Provilkov et al., 2020): probability to leave a merge out", below=1
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
    dropout: float = _number(0.3, "dropout of embeddings and readout", below=1)
    rdrop: float = _number(0.0, "weight of R-Drop (Liang et al., 2021), once BPE-dropout has ended")
    # training
    longest: int = _whole(
        50,
        "maximum length of a training sentence in words or pieces (150 with characters), before"
        " BPE-dropout; 0: none",
        least=0,
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
    label_smoothing: float = _number(0.1, "label smoothing of the cost", below=1)
    batch_size: int = _whole(80, "pairs per update")
    batch_order: str = _one_of("fairseq paper", "fairseq", "fairseq shuffles anew in each epoch")
    updates: int = _whole(6000, "length of the training")
    patience: int = _whole(-1, "epochs without improvement that end it; -1: never", least=-1)
    valid_bleu: bool = _switch(False, "BLEU of greedy translations, not the cost, is what improves")
    average: int = _whole(5, "number of best checkpoints to keep")
    average_start: bool = _switch(False, "their mean has the model of --from as well")
    seed: int = _whole(1, "seed of all that is random", least=0)
    train_options: str = _setting("", "further options of fairseq-train, separated by spaces")
    # translation
    evaluate: str = _one_of(
        "test valid", "test", "what is translated and scored; valid while settings are being chosen"
    )
    checkpoint: str = _one_of(
        "best average", "best", "which model translates: the best one, or the mean of the best ones"
    )
    ensemble: str = _setting(
        "", "work folders, separated by spaces, whose models translate together with this one"
    )
    beam: int = _whole(5, "width of the search")
    length_penalty: float = _setting(
        1.0, "above 1, translations are longer", type=float, metavar="X"
    )
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each setting; the help has the defaults for 100,000 pairs."""
    by_size = for_corpus({}, 100_000)
    for group, names in groups().items():
        of_group = parser.add_argument_group(f"settings of {group}")
        for name in names:
            about, shown = FIELDS[name].metadata, as_argument(getattr(by_size, name))
            if shown != (fixed := as_argument(FIELDS[name].default)):
                shown += f"; with --corpus {fixed}"
            meaning = about["help"] + (f" (default: {shown})" if shown else "")
            of_group.add_argument(option_of(name), **{**about, "help": meaning})


def given_in(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the user gives, and what follows from them in every command."""
    given = {name: value for name in FIELDS if (value := getattr(options, name)) is not None}
    if "character" in Settings(**given).tokenizers:
        given.setdefault("longest", 150)  # as many characters as some 30 words have
    return given


def variable(setting: str, languages: tuple[str, str]) -> str:
    """Return a setting's name in recipes and work folders; TOKENIZER_fr is of one language."""
    if setting in OF_SIDES:
        return f"TOKENIZER_{languages[OF_SIDES.index(setting)]}"
    return setting.upper()


def in_environment(environment: Mapping[str, str], languages: tuple[str, str]) -> list[str]:
    """Return the options for settings that are set as variables, empty ones excluded."""
    given = {name: environment.get(variable(name, languages)) for name in FIELDS}
    return [f"{option_of(name)}={text}" for name, text in given.items() if text]


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


# --- from a trained model -----------------------------------------------------------------------

# Epochs and rate are for some thousands of pairs; the best checkpoint by validation is taken.
_CONTINUED = {"learning_rate": 0.001, "warmup": 50, "batch_size": 40, "longest": 200}
_CONTINUED |= {"dropout": 0.2, "patience": 4}
_CONTINUED |= {"checkpoint": "average", "average": 3, "average_start": True}
_CONTINUED_EPOCHS, _CONTINUED_UPDATES = 6, 200  # as many updates at least


def for_model(given: Mapping[str, Any], pairs: int | None, of_model: Mapping[str, Any]) -> Settings:
    """Return the settings for going on with a model; those that are given stay.

    Args:
        pairs: None: the length of the training does not follow from their number.
        of_model: those that the model decides.

    Raises:
        UsageError: one of the latter is given with another value.
    """
    for name, value in of_model.items():
        if given.get(name, value) != value:
            raise UsageError(f"{option_of(name)} {given[name]}: the model of --from has {value}")
    chosen = _CONTINUED | given | of_model
    if pairs:
        updates = pairs * _CONTINUED_EPOCHS // chosen["batch_size"]
        chosen.setdefault("updates", max(updates, _CONTINUED_UPDATES))
    return Settings(**chosen)


# --- for fairseq --------------------------------------------------------------------------------


def for_settings(
    s: Settings, folders: Sequence[Path], save_dir: Path, epochs: int = 0, rdrop: float = 0
) -> list[object]:
    """Return fairseq-train's options for a training with these settings.

    Args:
        folders: what each epoch reads, one after the other.
        epochs: the number of epochs after which it ends; 0: after all updates.
        rdrop: the weight of R-Drop.
    """
    return [
        ":".join(map(str, folders)),
        "--arch", f"{s.model}_50", "--decoder-order", s.decoder_order,
        "--encoder-embed-dim", s.embedding, "--decoder-embed-dim", s.embedding,
        "--encoder-hidden-size", s.hidden, "--decoder-hidden-size", s.hidden,
        "--attention-size", s.attention, "--maxout-size", s.maxout,
        "--initialization", s.initialization, "--dropout", as_argument(s.dropout),
        "--max-train-words", s.longest,
        "--criterion", "alignment_heatmap", "--label-smoothing", as_argument(s.label_smoothing),
        *_optimization(s), "--clip-norm", as_argument(s.clip_norm),
        "--batch-size", s.batch_size, "--batch-order", s.batch_order,
        "--max-update", s.updates, "--patience", s.patience, "--seed", s.seed,
        "--num-workers", 0,
        "--save-dir", save_dir, "--no-epoch-checkpoints",
        "--keep-best-checkpoints", s.average, *_judgement(s),
        "--log-format", "simple", "--log-interval", 50, *s.train_options.split(),
        *(("--max-epoch", epochs) if epochs else ()),
        *(("--rdrop-alpha", rdrop) if rdrop else ()),
    ]  # fmt: skip


def _optimization(s: Settings) -> list[object]:
    if s.optimizer == "adadelta":
        return ["--cost-scale", "sum", "--optimizer", "rnnsearch_adadelta"]
    options: list[object] = ["--cost-scale", "word", "--optimizer", "adam"]
    options += ["--lr", as_argument(s.learning_rate)]
    options += ["--lr-scheduler", s.lr_scheduler, "--warmup-updates", s.warmup]
    if s.lr_scheduler == "polynomial_decay":
        options += ["--total-num-update", s.updates, "--end-learning-rate", "0.00001"]
    return options


def _judgement(s: Settings) -> list[str]:
    if not s.valid_bleu:
        return ["--best-checkpoint-metric", "nll_loss"]
    options = ["--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"]
    options += ["--eval-bleu", "--eval-bleu-args", '{"beam": 1}']
    if s.vocabulary == "bpe":
        options.append("--eval-bleu-remove-bpe")
    return options
