"""Write the model card of an everyday model: what it is, how well it does, and what it cannot do.

python card.py --model CHECKPOINT --data DATA --corpus CORPUS --part test --translations FILE
    --settings FILE --target fr > card.md

The twenty sentences of outside.tsv were written before any model was asked: ten that people say
every day, and ten of news, names, technical words and long sentences. The card shows all of them.
"""

import argparse
import sys
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from fairseq_rnnsearch import load
from fairseq_rnnsearch.command_line import program

sys.path.append(str(Path(__file__).resolve().parents[1]))
from text_files import read_lines

HERE = Path(__file__).parent
NAMES = {"en": "English", "fr": "French"}
EVERYDAY = 10  # lines of outside.tsv; the others are beyond what the model is for
# BLEU by the model cards of Helsinki-NLP/opus-mt-en-fr and opus-mt-fr-en
OPUS_MT = {"fr": 50.5, "en": 57.5}
# what mix.py has added
KINDS = {
    "translations": "Translations of their sentences by earlier models of both directions",
    "sentences": "Sentences of other text, with translations by earlier models",
    "laws": """Short pairs of Canada's acts and regulations as
[justicecanada/laws-lois-xml](https://github.com/justicecanada/laws-lois-xml) has them. Contains
information licensed under the [Open Government Licence -
Canada](https://open.canada.ca/en/open-government-licence-canada)""",
}
PARTS = {"test": "the public test set of Tatoeba", "valid": "validation pairs"}


@program
def main() -> None:
    """Print the card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--part", choices=tuple(PARTS), required=True)
    parser.add_argument("--translations", type=Path, required=True)
    parser.add_argument("--kinds", nargs="*", choices=tuple(KINDS), default=[])
    parser.add_argument("--settings", type=Path, required=True)
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--target", choices=tuple(NAMES), required=True)
    options = parser.parse_args()
    target = options.target
    source = "fr" if target == "en" else "en"
    model = load(options.model, options.data)
    numbers = sum(parameter.numel() for parameter in model.models[0].parameters())
    outside = [line.split("\t") for line in (HERE / "outside.tsv").read_text("utf-8").splitlines()]
    sentences = [pair[source == "fr"] for pair in outside]
    texts = (options.corpus / f"{part}.{source}" for part in ("train", "valid"))
    train, valid, tested = (len(read_lines(path)) for path in (*texts, options.translations))
    shown = [
        f"| {one.source} | {one.text} |"
        for one in model.translate(sentences, options.beam, forbid_unk=True)
    ]
    print(f"""---
language:
- {source}
- {target}
license: cc-by-2.0
library_name: fairseq_rnnsearch
pipeline_tag: translation
datasets:
- tatoeba
---

# Everyday sentences, {NAMES[source]} to {NAMES[target]}

RNNsearch ("Neural Machine Translation by Jointly Learning to Align and Translate", Bahdanau, Cho
and Bengio, ICLR 2015) with {numbers:,} parameters.

```python
from fairseq_rnnsearch import load

print(load("{source}-{target}").translate("{sentences[0]}").text)
```

## Data and licence

Sentence pairs of [Tatoeba](https://tatoeba.org), licensed
[CC BY 2.0 FR](https://creativecommons.org/licenses/by/2.0/fr/), as manythings.org/anki packs them.
{"".join(f"{KINDS[kind]}.{chr(10)}" for kind in options.kinds)}
Together {train:,} pairs for training, with copies in capitals and lower case, and {valid:,} for
validation. No pair with a sentence of the test set, on either side, is among them.

## How well it translates

{tested:,} sentences of {PARTS[options.part]}, beam {options.beam}, from the unrounded
checkpoint:

```text
{_scores(options.translations, options.corpus / f"{options.part}.{target}")}
```
{_compared(options.part, target)}
## What it is for

Sentences that people say every day:

| {NAMES[source]} | the model's {NAMES[target]} |
|---|---|
{chr(10).join(shown[:EVERYDAY])}

## What it is not good for

News, names, technical words and long sentences. It invents words and leaves parts out, and often
gives no warning:

| {NAMES[source]} | the model's {NAMES[target]} |
|---|---|
{chr(10).join(shown[EVERYDAY:])}

These twenty sentences were written before the model was asked, and all of them are shown, as the
model translates them before its parameters are rounded to 8 bits.

## How it was made

`TATOEBA=fra-eng.zip TEST_PREFIX=test-v2021-08-07 TARGET={target} bash recipes/everyday/run.sh` in a
checkout of fairseq_rnnsearch (`--help` says where both come from), with these settings:

```text
{_settings(options.settings)}
```""")


def _scores(translations: Path, references: Path) -> str:
    written, expected = map(read_lines, (translations, references))
    return "\n".join(
        metric.corpus_score(written, [expected]).format(signature=str(metric.get_signature()))
        for metric in (BLEU(), CHRF())
    )


def _compared(part: str, target: str) -> str:
    compared = f"""
OPUS-MT's own model of this direction, which is about ten times as large and was trained on all of
OPUS, has {OPUS_MT[target]} BLEU on an older version of this test set, by its model card.
"""
    return compared if part == "test" else ""


def _settings(path: Path) -> str:
    """Return the recipe's settings, except those that are paths."""
    return "\n".join(line for line in read_lines(path) if "/" not in line)


if __name__ == "__main__":
    main()
