"""The steps from a parallel corpus to a trained model, its translations and a page."""

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from fairseq_rnnsearch.errors import UserError, as_text, pluralize
from fairseq_rnnsearch.models import quality
from fairseq_rnnsearch.text.checksums import digest
from fairseq_rnnsearch.train.pairs import PARTS
from fairseq_rnnsearch.train.progress import Progress
from fairseq_rnnsearch.train.settings import Settings, as_argument, for_settings
from fairseq_rnnsearch.train.steps import Step, Work, log
from fairseq_rnnsearch.train.subwords import make_subwords

# what the console scripts of fairseq do
_FAIRSEQ = (
    "import sys; from fairseq_cli.{0} import cli_main; sys.argv[0] = 'fairseq-{0}'; cli_main()"
)
# fairseq-preprocess, once for the options between two semicolons, as its start takes seconds; the
# first makes the dictionaries of all others, which then run beside each other
_PREPROCESS = """\
import itertools, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from fairseq_cli import preprocess
def run(options):
    sys.argv = ["fairseq-preprocess", *options]
    preprocess.cli_main()
    preprocess.logger.handlers.clear()  # each folder has its own log
first, *others = [
    list(options) for between, options in itertools.groupby(sys.argv[1:], ";".__eq__) if not between
]
run(first)
from fairseq_rnnsearch.train.steps import end_at_once  # after fairseq, which reads the --user-dir
with ProcessPoolExecutor(mp_context=get_context("fork"), initializer=end_at_once) as pool:
    list(pool.map(run, others))
"""
_AVERAGE = """\
import sys
from fairseq_rnnsearch.runs.checkpoint import write_average
write_average(sys.argv[2:], sys.argv[1])
"""


@dataclass(frozen=True)
class Training:
    """One training in a work folder.

    Attributes:
        languages: of the source and the target.
        corpus: the folder of the text, ``{train,valid,test}.LANGUAGE``.
        user_dir: fairseq's ``--user-dir``.
    """

    work: Work
    settings: Settings
    languages: tuple[str, str]
    corpus: Path
    user_dir: Path
    beginning = None  # where it begins with a model: a folder with from.pt

    # --- names ------------------------------------------------------------------------------------

    @property
    def data(self) -> Path:
        """Return the folder of the text for fairseq."""
        return self.work.folder / "data"

    @property
    def trained(self) -> Path:
        """Return the checkpoint that translates."""
        if self.settings.checkpoint == "best":
            return self.work.folder / "checkpoints/checkpoint_best.pt"
        return self.work.folder / f"average-of-{self.settings.average}.pt"

    @cached_property  # an ensemble's models are read
    def translations(self) -> Path:
        """Return the folder of the translations with these settings."""
        s = self.settings
        name = f"translations-{s.checkpoint}-beam{s.beam}-length{as_argument(s.length_penalty)}"
        name += f"-{s.unknown}"
        if s.evaluate != "test":
            name = f"{s.evaluate}-{name}"
        for other in s.ensemble.split():
            name += f"-with-{Path(other).name}-{digest(self._model_in(other))[:8]}"
        return self.work.folder / name

    @property
    def page(self) -> Path:
        """Return the page that translates."""
        return self.work.folder / f"living-{self.settings.checkpoint}.html"

    @property
    def _text(self) -> Path:
        return self.work.folder / ("subwords" if self.settings.vocabulary == "bpe" else "tokens")

    def models(self) -> str:
        """Return the checkpoints that translate together; those of other folders are there."""
        others = map(self._model_in, self.settings.ensemble.split())
        return ":".join(map(str, [self.trained, *others]))

    def _model_in(self, other: str) -> Path:
        """Return the checkpoint that translates in another work folder."""
        return (Path(other) / self.trained.relative_to(self.work.folder)).resolve(strict=True)

    def _tokenizer(self, language: str) -> str:
        return self.settings.tokenizers[self.languages.index(language)]

    # --- steps ------------------------------------------------------------------------------------

    def prepare_text(self) -> list[Step]:
        """Return the steps from the corpus to data for fairseq."""
        steps = [Step("tokenise it", self._tokenise, self.work.folder / "tokens")]
        if self.settings.vocabulary == "bpe":
            steps.append(Step("make subwords", self._make_subwords, self.work.folder / "subwords"))
        return [*steps, Step("binarise it", self._binarise, self.data)]

    def train(self, finish: bool = False) -> list[Step]:
        """Return the steps of the training: one or, for R-Drop after BPE-dropout, two.

        Args:
            finish: end it with the checkpoints that are there.
        """
        s, steps = self.settings, []
        if s.rdrop and s.bpe_dropout_epochs:
            first = partial(self._train, epochs=s.bpe_dropout_epochs)
            steps.append(Step("train with BPE-dropout", first))
        steps.append(Step("train", partial(self._train, rdrop=s.rdrop)))
        if finish:
            steps = [step._replace(make=self._finish) for step in steps]
        if s.checkpoint == "average":
            steps.append(Step(f"average {s.average} checkpoints", self._average, self.trained))
        return steps

    def translate(self) -> list[Step]:
        """Return the steps of the translation."""
        steps, part = [], self.settings.evaluate
        if self.settings.unknown == "replace":
            words = self.work.folder / f"{part}-words"
            steps.append(Step(f"keep the words of {part}", self._keep_words, words))
        name = f"translate to {self.translations.name}"
        return [*steps, Step(name, self._translate, self.translations)]

    def make_page(self, title: str, licence: str) -> Step:
        """Return the step that makes a page, with examples of the text that is evaluated."""
        name = f"write a page that translates ({self.settings.checkpoint})"
        return Step(name, partial(self._write_page, title, licence), self.page)

    # --- text -------------------------------------------------------------------------------------

    def _tokenise(self, out: Path) -> None:
        from fairseq_rnnsearch.commands import tokenizing

        options = ["--out", str(out), *(["--lowercase"] if self.settings.lowercase else [])]
        for language in self.languages:
            options += ["--tokenizer-of", f"{language}={self._tokenizer(language)}"]
        files = (self.corpus / f"{part}.{side}" for part in PARTS for side in self.languages)
        tokenizing.main([*options, *map(str, files)])

    def _make_subwords(self, out: Path) -> None:
        with_codes = [one for one in self.languages if self._tokenizer(one) != "character"]
        what = self.work.folder / "tokens", out, self.languages, with_codes, self.settings
        make_subwords(*what, self.beginning)

    def _binarise(self, out: Path) -> None:
        """Make data of all parts and copies; the dictionaries have the pieces of all copies."""
        s, text = self.settings, self._text
        held_out = ("--validpref", text / "valid", "--testpref", text / "test")
        known = self._dictionaries(self.beginning) if self.beginning else ()
        whole = ("--destdir", out, "--trainpref", text / "train", *known)
        if not s.bpe_dropout:
            least = ("--thresholdsrc", s.min_count, "--thresholdtgt", s.min_count)
            options = least if s.vocabulary == "shortlist" else ()
            self._preprocess("preprocess", ["--workers", 2, *whole, *held_out, *options])
            return
        copies = [
            [
                *(*self._dictionaries(out), "--destdir", _copy_in(out, copy)),
                *("--trainpref", text / f"train-{copy}", *(held_out if copy == 1 else ())),
            ]
            for copy in range(s.bpe_copies + 1)
        ]
        self._preprocess("preprocess", ["--dict-only", "--workers", 2, *whole], *copies)

    def _keep_words(self, out: Path) -> None:
        """Keep also the words that the dictionary lacks, because ``--replace-unk`` needs them."""
        part = self.settings.evaluate
        self._preprocess(f"preprocess-{part}", [
            "--destdir", out, "--dataset-impl", "raw", f"--{part}pref", self._text / part,
            *self._dictionaries(self.data),
        ])  # fmt: skip

    def _dictionaries(self, data: Path) -> list[object]:
        source, target = (data / f"dict.{language}.txt" for language in self.languages)
        return ["--srcdict", source, "--tgtdict", target]

    def _preprocess(self, name: str, *commands: list[object]) -> None:
        """Run fairseq-preprocess once for each list of options, in one process."""
        source, target = self.languages
        always = (*self._plugin, "--source-lang", source, "--target-lang", target)
        options = itertools.chain.from_iterable((*always, *command, ";") for command in commands)
        self.work.run(name, ["-c", _PREPROCESS, *options])

    @property
    def _plugin(self) -> tuple[object, ...]:
        return "--user-dir", self.user_dir, "--task", "alignment_heatmap"

    def _fairseq(
        self,
        program: str,
        *options: object,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.work.run(program, ["-c", _FAIRSEQ.format(program), *self._plugin, *options], show)

    # --- training ---------------------------------------------------------------------------------

    def folders(self) -> list[Path]:
        """Return what each epoch reads; after the last folder, the first is read again.

        Raises:
            UserError: all pairs are too long.
        """
        s = self.settings
        if not s.bpe_dropout:
            return [self.data]
        epochs = range(s.bpe_dropout_epochs or s.bpe_copies)
        copies = [epoch % s.bpe_copies + 1 for epoch in epochs]
        if s.bpe_dropout_epochs:  # afterwards no merge is left out
            copies += [0] * (s.updates * s.batch_size // self._pairs_of_training() + 1)
        return [_copy_in(self.data, copy) for copy in copies]

    def _pairs_of_training(self) -> int:
        """Count the pairs that are not too long once their words are split as in translation."""
        most = self.settings.longest
        pairs = sum(not most or length <= most for length in self._lengths_of_training())
        if not pairs:
            raise UserError(
                f"no pair has at most {pluralize(most, 'word or piece', 'words or pieces')}"
            )
        return pairs

    def _lengths_of_training(self) -> list[int]:
        """Return the length of each pair's longer side, split as in translation."""
        sides = [lines_of(self._text / f"train-0.{language}") for language in self.languages]
        return [max(len(side.split()) for side in pair) for pair in zip(*sides, strict=True)]

    def _train(self, epochs: int = 0, rdrop: float = 0) -> None:
        """Train for all updates or, if it is not 0, for a number of epochs."""
        s = self.settings
        progress = Progress(s.updates, epochs)
        if epochs:
            log(f"  for {pluralize(epochs, 'epoch')}; then R-Drop goes on to update {s.updates}")
        if s.bpe_dropout and max(self._lengths_of_training()) <= s.longest:
            s = replace(s, longest=0)  # no copy has longer pairs, which older folders' have
        options = for_settings(s, self.folders(), self.work.folder / "checkpoints", epochs, rdrop)
        options += ["--finetune-from-model", self.beginning / "from.pt"] if self.beginning else []
        self._fairseq("train", *options, show=progress.show)

    def _finish(self) -> None:
        """End the training, which may have had no validation yet."""
        best = self.work.folder / "checkpoints/checkpoint_best.pt"
        if not best.exists():
            best.symlink_to("checkpoint_last.pt")
        if (updates := quality.saved_updates(self.work.folder)) < self.settings.updates:
            quality.keep(self.work.folder, {"updates": updates, "planned": self.settings.updates})

    def _average(self, out: Path) -> None:
        folder = self.work.folder / "checkpoints"
        best = sorted(folder.glob("checkpoint.best_*.pt")) or [folder / "checkpoint_best.pt"]
        has_start = self.beginning and self.settings.average_start
        start = [self.beginning / "from.pt"] if has_start else []
        self.work.run("average", ["-c", _AVERAGE, out, *start, *best])

    # --- translation ------------------------------------------------------------------------------

    def _translate(self, out: Path) -> None:
        s, (source, target) = self.settings, self.languages
        data: list[object] = [self.data]
        options: list[object] = []
        if s.unknown == "forbid":
            options.append("--forbid-unk")
        elif s.unknown == "replace":
            data = [self.work.folder / f"{s.evaluate}-words", "--dataset-impl", "raw"]
            data += ["--source-lang", source, "--target-lang", target]
            options += ["--replace-unk", ""]
        if s.vocabulary == "bpe":
            options += ["--post-process", "subword_nmt"]
        if s.model == "rnnsearch":
            options += ["--heatmap-dir", out / "alignments", "--heatmap-format", "html,png"]
            options += ["--heatmap-samples", s.drawn]
        self._fairseq(
            "generate", *data, "--path", self.models(), "--gen-subset", s.evaluate,
            "--batch-size", 40, "--results-path", out, "--beam", s.beam,
            "--lenpen", as_argument(s.length_penalty), *options,
        )  # fmt: skip
        self._write_text(out, _translations(out / f"generate-{s.evaluate}.txt"))

    def _write_text(self, out: Path, tokens: list[str]) -> None:
        """Write translations as tokens, and as text.

        Raises:
            UserError: some are missing.
        """
        from fairseq_rnnsearch.text import plain_text, reversible

        target = self.languages[1]
        reference = self.work.folder / "tokens" / f"{self.settings.evaluate}.{target}"
        if len(tokens) != (expected := len(lines_of(reference))):
            raise UserError(
                f"{out} has {pluralize(len(tokens), 'translation')} of"
                f" {pluralize(expected, 'sentence')}"
            )
        rules = plain_text.PlainText(target, self._tokenizer(target))
        text = (rules.text(line.split()) for line in tokens)
        for name, lines in (("tokens", map(reversible.with_case, tokens)), ("text", text)):
            content = "".join(f"{line}\n" for line in lines)
            (out / f"{name}.{target}").write_text(content, encoding="utf-8", newline="\n")

    def report(self) -> None:
        """Print three translations, the scores and where to see the rest."""
        s, (source, target) = self.settings, self.languages
        corpus = [self.corpus / f"{s.evaluate}.{language}" for language in self.languages]
        sides = [corpus[0], self.translations / f"text.{target}", corpus[1]]
        for three in list(zip(*map(lines_of, sides), strict=True))[:3]:
            for name, sentence in zip(("source", "translation", "reference"), three, strict=True):
                print(f"{name:<13}{as_text(sentence)}")
            print()
        print(f"{s.model}, {source} to {target}, in {self.translations}:")
        translations, references = map(lines_of, sides[1:])
        equal = sum(map(str.__eq__, translations, references))
        print(f"  {equal} of {pluralize(len(references), 'translation')} equal to the reference")
        # BLEU counts four words in a row, or four characters; a few such lines say nothing of all
        with_four = sum(len(line.split()) > 3 for line in references)
        in_words = s.bleu_tokenizer in ("13a", "none", "intl")
        has_bleu = not in_words or 10 * with_four >= len(references)
        if has_bleu and self._tokenizer(target) != "character":
            print("lower-cased, tokenised:")
            tokens = self.work.folder / "tokens" / f"{s.evaluate}.{target}"
            self._score("tokens", tokens, "--tokenize", "none", "--lowercase", "--force")
        print("detokenised, against a cased reference:" if s.lowercase else "cased, detokenised:")
        metrics = ("bleu", "chrf", "--tokenize", s.bleu_tokenizer) if has_bleu else ("chrf",)
        scores = self._score("text", corpus[1], "--metrics", *metrics)
        if not s.ensemble:
            generated = self.translations / f"generate-{s.evaluate}.txt"
            tenth = quality.tenth_of_scores(lines_of(generated))
            quality.keep(self.work.folder, scores | {"token_score_10": tenth})
        if s.model == "rnnsearch":
            print(f"alignments: {self.translations}/alignments/index.html")
        emerging = self.work.folder / "checkpoints/heatmaps/emerging.gif"
        if emerging.exists():
            print(f"  how they emerged in training: {emerging}")
        print("to translate more:")
        command = [sys.executable, "-m", "fairseq_rnnsearch.commands.translate"]
        print(" ", shlex.join([*command, str(self.work.folder)]))

    def _score(self, name: str, reference: Path, *options: str) -> dict[str, float]:
        """Print scores with their signatures, and return them by their names."""
        hypothesis = self.translations / f"{name}.{self.languages[1]}"
        command = [sys.executable, "-P", "-m", "sacrebleu", reference, "--input", hypothesis]
        scored = subprocess.run(
            [*command, "--format", "text", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8", check=True,
        )  # fmt: skip
        for line in scored.stdout.splitlines():
            print(f"  {line.strip()}")
        found = re.findall(r"^ *(\w+)\|\S+ = ([\d.]+)", scored.stdout, re.MULTILINE)
        return {metric: float(score) for metric, score in found}

    def _write_page(self, title: str, licence: str, out: Path) -> None:
        part, source = self.settings.evaluate, self.languages[0]
        lines = lines_of(self.corpus / f"{part}.{source}")
        examples = [f"--example={line}" for line in (*lines[:2], max(lines, key=len))]
        self.work.run("living", [
            "-m", "fairseq_rnnsearch.living", self.trained, "--data", self.data, "--out", out,
            "--title", title, "--licence", licence, *examples,
        ])  # fmt: skip


def _copy_in(data: Path, copy: int) -> Path:
    """Return the folder of a BPE-dropout copy; the first lies with all other data."""
    return data if copy == 1 else data / f"copy-{copy}"


def _translations(generated: Path) -> list[str]:
    """Return the translations in fairseq-generate's output, in the order of the text."""
    fields = (line[2:].split("\t", 2) for line in lines_of(generated) if line.startswith("D-"))
    return [text for _, text in sorted((int(number), text) for number, _, text in fields)]


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
