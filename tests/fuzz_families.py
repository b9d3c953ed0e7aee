"""What `fuzz.py` damages, read in this process; and by other means, to compare."""

import contextlib
import io
import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import sacrebleu
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fuzz import Family, Files
from oracles import numpy_rnnsearch as oracle
from test_data_folder import write as write_binarised
from test_training_log import Log

from fairseq_rnnsearch import authors_parameters, groundhog
from fairseq_rnnsearch.compat import mends
from fairseq_rnnsearch.data.binarised import check_split
from fairseq_rnnsearch.data.checksums import check_checksum, write_checksums
from fairseq_rnnsearch.data.corpus import check_parallel
from fairseq_rnnsearch.data.dictionary_file import check_dictionary
from fairseq_rnnsearch.data.plain_text import PlainText
from fairseq_rnnsearch.evaluation.__main__ import main as evaluation
from fairseq_rnnsearch.evaluation.alignment_error_rate import count_links, total
from fairseq_rnnsearch.evaluation.links import read_links, same_sentences
from fairseq_rnnsearch.evaluation.training_log import read_training
from fairseq_rnnsearch.figures import Alignment, read_alignments, write_gallery

ENGLISH = "the red house\na bird\n\ncalm lamps shine at night .\nthe key of 3 boats\n"
FRENCH = "la maison rouge\nun oiseau\n\nles lampes calmes brillent\nla clé de 3 bateaux\n"
DICTIONARY = "".join(f"{word} {9 - i}\n" for i, word in enumerate("the red house a bird".split()))


def families(work: Path) -> dict[str, Family]:
    """All of them.

    Args:
        work: a folder for what has to be made first.
    """
    warnings.simplefilter("ignore")
    return {
        "text": Family({"text.en": ENGLISH.encode(), "text.fr": FRENCH.encode()}, text, text_again),
        "dictionary": Family({"dict.en.txt": DICTIONARY.encode()}, dictionary, dictionary_again),
        "binarised data": Family(_binarised(work / "a"), binarised, binarised_again),
        "binarised data, SHA256SUMS": Family(
            _binarised(work / "b", checksums=True), binarised, lambda _: SENTENCES
        ),
        "word links": Family(
            {"gold": GOLD.encode(), "hypothesis": HYPOTHESIS.encode()}, links, links_again
        ),
        "alignments.jsonl": Family(_jsonl(work), alignments, alignments_again),
        "checkpoint": _checkpoint(work),
        "GroundHog .npz": _groundhog(work),
        "training log": Family({"train.log": _log()}, training),
        "translations": Family(_translations(), translations, translations_again),
        "unknown words": Family(_unknown_words(work), unknown_words),
        "preprocessing.json": Family(
            {"preprocessing.json": PREPROCESSING.encode(), "codes": CODES.encode()}, tokens
        ),
    }


# --- text and dictionaries ------------------------------------------------------------------------


def text(folder: Path) -> list:
    return [check_parallel(folder / "text.en", folder / "text.fr")] * 2


def text_again(folder: Path) -> list:
    """As fairseq reads it: text mode, `readline`."""
    counts = []
    for name in ("text.en", "text.fr"):
        with (folder / name).open(encoding="utf-8") as file:
            counts.append(sum(1 for _ in file))
    return counts


def dictionary(folder: Path) -> list[str]:
    path = folder / "dict.en.txt"
    check_dictionary(path)
    check_checksum(path)
    return Dictionary.load(str(path)).symbols[4:]


def dictionary_again(folder: Path) -> list[str]:
    words = []
    for line in (folder / "dict.en.txt").read_bytes().decode().replace("\r\n", "\n").split("\n"):
        if line:
            words.append(re.fullmatch(r"(.*) -?\d+( #fairseq:overwrite)?\s*", line, re.S)[1])
    return words


# --- binarised data -------------------------------------------------------------------------------

SENTENCES = [[[4, 5, 2], [2], [6, 7, 8, 2]], [[9, 2], [4, 4, 2], [5, 2]]]
NAMES = ("valid.en-fr.en", "valid.en-fr.fr")


def _binarised(folder: Path, checksums: bool = False) -> Files:
    folder.mkdir()
    for name, sentences in zip(NAMES, SENTENCES, strict=True):
        write_binarised(folder, sentences, 10, name)
    if checksums:
        write_checksums(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def binarised(folder: Path) -> list:
    check_split(folder, "valid", {"en": 10, "fr": 10})
    loaded = []
    for name in NAMES:
        if not (folder / f"{name}.idx").exists():
            raise groundhog.UserError(f"no {name}.idx: fairseq finds no dataset, and says so")
        if (folder / f"{name}.idx").read_bytes()[:8] != b"MMIDIDX\0":
            raise groundhog.UserError(f"{name}.idx: fairseq takes it for another kind, and says so")
        data = MMapIndexedDataset(str(folder / name))
        loaded.append([data[i].tolist() for i in range(len(data))])
    return loaded


def binarised_again(folder: Path) -> list:
    loaded = []
    for name in NAMES:
        index, data = ((folder / f"{name}.{kind}").read_bytes() for kind in ("idx", "bin"))
        count = int.from_bytes(index[18:26], "little")
        sizes = np.frombuffer(index[26 : 26 + 4 * count], "<i4")
        width = {1: 1, 2: 1, 3: 2, 8: 2, 4: 4, 9: 4, 5: 8, 10: 8}[index[17]]
        words = [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
        ends = np.cumsum(sizes)
        loaded.append([words[end - size : end] for size, end in zip(sizes, ends, strict=True)])
    return loaded


# --- links and alignments -------------------------------------------------------------------------

GOLD = "0001 1 1 S\n0001 2 3 S\n0001 3 2 P\n0002 1 1\n0002 2 2 P 0.5\n0004 1 2 S\n0005 1 1 S\n"
HYPOTHESIS = "0-0 1-2 2-1\n0-0\n\n0-1 1-0\n0-0 1-1 3-2\n"


def links(folder: Path) -> tuple:
    gold, hypothesis = read_links(folder / "gold"), read_links(folder / "hypothesis")
    arguments = ["aer", "--gold", str(folder / "gold"), "--hypothesis", str(folder / "hypothesis")]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        evaluation([*arguments, "--bootstrap", "2"])
    assert "nan" not in out.getvalue().partition("95%")[2]
    hypothesis = same_sentences(hypothesis, len(gold.sentences), gold.path)
    counts = total(count_links(gold.sentences, hypothesis.links))
    return tuple(round(x, 9) for x in (counts.precision, counts.recall, counts.aer) if x == x)


def links_again(folder: Path) -> tuple:
    """Och and Ney's definitions on sets of (sentence, source, target)."""
    (sure, possible), (_, found) = (_links(folder / name) for name in ("gold", "hypothesis"))
    both, number = (len(found & sure), len(found & possible)), len(found) + len(sure)
    ratios = (both[1], len(found)), (both[0], len(sure)), (number - sum(both), number)
    return tuple(round(part / whole, 9) for part, whole in ratios if whole)


def _links(path: Path) -> tuple:
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    sure, possible = set(), set()
    first = next((line.split()[0] for line in lines if line.split()), "")
    if re.fullmatch("-?[0-9]+", first):
        for line in filter(str.split, lines):
            fields = line.split()
            link = tuple(map(int, fields[:3]))
            if 0 not in link[1:]:
                possible.add(link)
                if "P" not in fields[3:4] or link in sure:
                    sure.add(link)
        return sure, possible
    base = 0 if "p" in "".join(lines) else 1  # talp counts from 1, pharaoh from 0
    for number, line in enumerate(lines, start=1):
        for text in line.split():
            source, kind, target = re.fullmatch("([0-9]+)([-p])([0-9]+)", text).groups()
            link = number, int(source) + base, int(target) + base
            possible.add(link)
            if kind == "-":
                sure.add(link)
    return sure, possible


def _jsonl(work: Path) -> Files:
    pairs = [line.split("\n") for line in (ENGLISH, FRENCH)]
    draw = np.random.default_rng(0)
    made = []
    for number, (source, target) in enumerate(zip(*pairs, strict=True)):
        if source:
            words = [*source.split(), "</s>"], [*target.split(), "</s>"]
            weights = draw.dirichlet(np.ones(len(words[0])), len(words[1]))
            made.append(Alignment(*words, weights, number, -0.5))
    write_gallery(work / "gallery", made, ("jsonl",))
    return {"alignments.jsonl": (work / "gallery" / "alignments.jsonl").read_bytes()}


def _values(found: dict) -> str:
    """As text: NaN is not equal to itself."""
    return repr([(a.id, a.source, a.target, a.weights.tolist(), a.score) for a in found.values()])


def alignments(folder: Path) -> str:
    found = read_alignments(folder / "alignments.jsonl")
    if sum(a.weights.size for a in found.values()) < 10_000:
        write_gallery(folder / "out", found.values(), ("jsonl", "html", "pharaoh"))
        page = (folder / "out" / "index.html").read_text(encoding="utf-8")
        assert page.count("<script") == 2
    return _values(found)


def alignments_again(folder: Path) -> str:
    content = (folder / "alignments.jsonl").read_text(encoding="utf-8")
    found = {}
    for entry in map(json.loads, filter(str.strip, content.split("\n"))):
        source, target, number = entry["source"], entry["target"], entry["id"]
        weights = np.array(entry["weights"], float).reshape(len(target), len(source))
        found[number] = Alignment(source, target, weights, number, entry.get("score"))
    return _values(found)


# --- parameters -----------------------------------------------------------------------------------


def _rounded(state: dict) -> dict:
    return {name: value.tolist() for name, value in state.items()}


def _checkpoint(work: Path) -> Family:
    model = {"a.weight": torch.randn(3, 4), "b": torch.arange(5.0)}
    history = {"criterion_name": "", "lr_scheduler_state": {}, "num_updates": 7}
    state = {"args": None, "cfg": {"model": {"_name": "rnnsearch"}}, "model": model}
    torch.save({**state, "optimizer_history": [history], "extra_state": {}}, work / "model.pt")

    def read(folder: Path) -> dict:
        with mends.applied():
            state = checkpoint_utils.load_checkpoint_to_cpu(str(folder / "model.pt"))
        return _rounded(state["model"])

    return Family({"model.pt": (work / "model.pt").read_bytes()}, read, lambda _: _rounded(model))


def _groundhog(work: Path) -> Family:
    sizes = {"embed": 4, "hidden": 5, "attention": 7, "maxout": 3}
    arrays = oracle.random_params(np.random.default_rng(1), **sizes, source_words=9, target_words=8)
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    np.savez(work / "params.npz", **arrays)
    words = [f"w{i}" for i in range(6)]
    sound = _rounded(authors_parameters.state_dict_from_groundhog(arrays))

    def read(folder: Path) -> tuple:
        out = folder / "out" / "model.pt"
        options = ["--params", folder / "params.npz", "--source-words", folder / "words.en"]
        with contextlib.redirect_stderr(io.StringIO()):
            groundhog.main(["import", *map(str, options), "--out", str(out)])
        state = torch.load(out, weights_only=True)["model"]
        return _rounded(state), Dictionary.load(str(out.parent / "dict.en.txt")).symbols[4:]

    def again(folder: Path) -> tuple:
        return sound, (folder / "words.en").read_bytes().decode().split()

    files = {
        "params.npz": (work / "params.npz").read_bytes(),
        "words.en": "\n".join(words).encode(),
    }
    return Family(files, read, again)


# --- what the evaluation reads --------------------------------------------------------------------


def _log() -> bytes:
    log = Log().begin(0)
    log.say(1, "fairseq.trainer", "Start iterating over samples")
    for minute, update in ((10, 100), (20, 200)):
        values = f"nats_per_sentence={60 - minute}, bsz=20, num_updates={update}"
        line = f"epoch 001: {update:6d} / 200 loss=9, {values}, wall={60 * minute}"
        log.say(minute, "train_inner", line)
    line = "epoch 001 | valid on 'valid' subset | nats_per_sentence 41 | num_updates 200"
    log.say(21, "valid", line)
    line = '{"epoch": 2, "update": 1.5, "nats_per_sentence": "30", "num_updates": "300"}'
    log.say(30, "train_inner", line)
    return ("\n".join(log.lines) + "\n").encode()


def training(folder: Path) -> None:
    found = read_training([folder / "train.log"])
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation(["training", "--log", f"a={folder / 'train.log'}"])
    assert found.updates >= 0 and found.hours >= 0 and found.lost_hours >= 0
    for value in (found.epochs, found.train_nats, found.valid_nats):
        assert value is None or math.isfinite(value)


def _translations() -> Files:
    files = {"source.en": ENGLISH, "reference.fr": FRENCH}
    files["system.fr"] = FRENCH.replace("rouge", "bleue")
    for name, text in (("dict.en.txt", ENGLISH), ("dict.fr.txt", FRENCH)):
        files[name] = "".join(f"{word} 1\n" for word in sorted(set(text.split())))
    return {name: content.encode() for name, content in files.items()}


def translations(folder: Path) -> str:
    names = {"source": "source.en", "reference": "reference.fr", "system=S": "system.fr"}
    names |= {"source-dictionary": "dict.en.txt", "target-dictionary": "dict.fr.txt"}
    options = [f"--{option}={folder / name}" for option, name in names.items()]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        evaluation(["bleu", *options, "--resamples", "2"])
    row = next(line for line in out.getvalue().splitlines() if line.startswith("| S "))
    return re.findall(r"\d+\.\d\d", row)[0]


def translations_again(folder: Path) -> str:
    system, reference = (
        (folder / name).read_bytes().decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
        for name in ("system.fr", "reference.fr")
    )
    bleu = sacrebleu.corpus_bleu(system, [reference], tokenize="none", force=True)
    return f"{bleu.score:.2f}"


def _unknown_words(work: Path) -> Files:
    translations = FRENCH.replace("la ", "<unk> ").replace("lampes", "<unk>")
    return {
        "source.en": ENGLISH.encode(),
        "translations.fr": translations.encode(),
        "alignments.jsonl": _jsonl(work)["alignments.jsonl"],
        "words": b"the la\na un\ncalm calmes\n",
    }


def unknown_words(folder: Path) -> None:
    names = {"source": "source.en", "translations": "translations.fr", "dictionary": "words"}
    names |= {"alignments": "alignments.jsonl", "out": "out/replaced.fr"}
    (folder / "out").mkdir()
    options = [f"--{option}={folder / name}" for option, name in names.items()]
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation(["replace-unk", *options])
    sources, before, after = (
        (folder / name).read_text(encoding="utf-8-sig").split("\n")
        for name in ("source.en", "translations.fr", "out/replaced.fr")
    )
    for source, here, there in zip(sources, before, after, strict=False):
        assert len(here.split()) == len(there.split())
        for old, new in zip(here.split(), there.split(), strict=True):
            assert old == new or old == "<unk>"
            assert new != "<unk>" or not source.split() or "<unk>" in source


PREPROCESSING = '{"en": {"tokenizer": "space", "lowercase": true, "bpe_codes": "codes"}}'
CODES = "#version: 0.2\nh o\nho u\nt h\nth e</w>\n"


def tokens(folder: Path) -> None:
    found = PlainText.of(folder, "en").tokens("The house")
    assert found and all(isinstance(token, str) and token for token in found)
