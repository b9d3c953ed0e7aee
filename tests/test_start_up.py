"""What a command need not import to start: torch and fairseq take seconds."""

import gc
import os
import pkgutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from commands import PACKAGE, ROOT, run_process
from slow_cases import cases

import fairseq_rnnsearch.__main__
from fairseq_rnnsearch.command_line import _share_the_processor
from fairseq_rnnsearch.commands import align, export, tokenizing, translate
from fairseq_rnnsearch.commands import evaluate as evaluation
from fairseq_rnnsearch.commands.command_options import starting
from fairseq_rnnsearch.conformance import __main__ as conformance
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.living import __main__ as living
from fairseq_rnnsearch.train import __main__ as training

# Words that show help, or are mistakes that are found before any work.
QUICK = {
    "fairseq_rnnsearch": ["", "--help", "optoins"],
    "fairseq_rnnsearch.groundhog": ["--help", "import", "improt"],
    "fairseq_rnnsearch.commands.translate": ["--help"],
    "fairseq_rnnsearch.commands.align": ["--help"],
    "fairseq_rnnsearch.conformance": ["--help", "--list", "--explain no-mask", "--explain no"],
    "fairseq_rnnsearch.commands.evaluate": [
        "--help",
        "raport",
        "aer --gold /nosuch --hypothesis /nosuch",
        "aer --help",
        "symmetrise --help",
    ],
}

# what each command begins with
MAINS = {
    "rnnsearch-align": align.main,
    "rnnsearch-check": conformance.main,
    "rnnsearch-evaluate": evaluation.main,
    "rnnsearch-export": export.main,
    "rnnsearch-living": living.main,
    "rnnsearch-path": fairseq_rnnsearch.__main__.print_path,
    "rnnsearch-tokenize": tokenizing.main,
    "rnnsearch-train": training.main,
    "rnnsearch-translate": translate.main,
}


@pytest.mark.parametrize("name", [*MAINS, "python -m fairseq_rnnsearch"])
def test_every_command_has_help_and_a_version(name, capsys):
    for option in ("--help", "--version"):
        with pytest.raises(SystemExit, match="0"):
            MAINS.get(name, fairseq_rnnsearch.__main__.main)([option])
    said = capsys.readouterr().out
    assert said.startswith(f"usage: {name} ")
    assert said.endswith(f"\n{name} {fairseq_rnnsearch.__version__}\n")


def test_every_command_is_in_the_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {name: pkgutil.resolve_name(main) for name, main in project["scripts"].items()} == MAINS


STARTS = """
import contextlib, io, runpy, sys
from pathlib import Path
import numpy as np
import fairseq_rnnsearch, fairseq_rnnsearch.align
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.figures import Alignment, Gallery
with Gallery(Path(sys.argv[1]), ("html", "jsonl")) as gallery:
    gallery.add(Alignment(("a",), ("b",), np.ones((1, 1)), 0))
print("a page", sys.modules.keys() & {"torch", "fairseq", "matplotlib"} or "")
mistakes = SystemExit, UserError, OSError
for module, lines in QUICK.items():
    for words in lines:
        sys.argv[1:] = words.split()
        with contextlib.suppress(*mistakes), contextlib.redirect_stdout(io.StringIO()):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        print(module, words, sys.modules.keys() & {"torch", "fairseq"} or "")
"""


WITHOUT_FAIRSEQ = """
import contextlib
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"fairseq", "fairseq_cli", "hydra", "omegaconf"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from fairseq_rnnsearch.commands import align, translate
from fairseq_rnnsearch.living import __main__ as living
from fairseq_rnnsearch.train import __main__ as training

folder = sys.argv[1]
source, target = (f"{folder}/text.{language}" for language in ("en", "fr"))
page = "--heatmap-format=html"
translate.main(["en-fr", source, "--beam=2", "--replace-unk", f"--heatmap-dir={folder}/h", page])
translate.main(["en-fr:en-fr", source, "--beam=2", "--authors-search"])
both = ["--inverse=fr-en", f"--source={source}", f"--target={target}", "--posterior", page]
align.main(["en-fr", *both, "--attribution", f"--out={folder}/a"])
assert not {"torch", "sacrebleu"} & sys.modules.keys()
living.main(["en-fr", f"--out={folder}/living.html"])
with contextlib.suppress(ModuleNotFoundError):
    training.main([f"--pairs={folder}/pairs.tsv", "--languages=en,fr", f"--work={folder}/work"])
translate.main([f"{folder}/checkpoint.pt", source])
"""


def ran(program, *arguments):
    """A program that has ended, in a process of its own, which had imported nothing."""
    return run_process([sys.executable, "-c", program, *arguments], cwd=ROOT)


def printed(program, *arguments):
    """What a program prints."""
    ended = ran(program, *arguments)
    assert not ended.returncode, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_threads_do_not_spin_for_long_unless_that_is_asked_for(monkeypatch, given, spins):
    monkeypatch.setattr(os, "environ", dict(given))
    _share_the_processor()
    assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_a_closed_output_takes_no_results_and_a_closed_error_output_no_others():
    code = (
        "import sys; from fairseq_rnnsearch.command_line import program; "
        "program(lambda: print(sys.argv[1]) or print('note', file=sys.stderr))()"
    )
    for closed, status, shown in ((">&-", 1, ""), ("2>&-", 0, "result\n")):
        command = ["bash", "-c", f'exec "$@" {closed}', "", sys.executable, "-c", code, "result"]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert (ended.returncode, ended.stdout) == (status, shown), ended.stderr


WAITING = """
import signal, tempfile, time
from fairseq_rnnsearch.command_line import program
@program
def main():
    with tempfile.TemporaryDirectory() as folder:
        print(folder, flush=True)
        time.sleep(60)
main()
"""


@pytest.mark.parametrize("number", cases([signal.SIGTERM, signal.SIGHUP, signal.SIGINT]))
def test_a_program_that_a_signal_ends_removes_what_is_unfinished(number):
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # whatever nohup has set
    ) as process:
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.send_signal(number)
    assert not folder.exists()
    assert process.returncode == (-number if number == signal.SIGINT else 128 + number)


ASKED = """
import importlib.util, fairseq_rnnsearch
assert importlib.util.find_spec("fairseq")
from fairseq.tasks import TASK_REGISTRY
print("alignment_heatmap" in TASK_REGISTRY)
"""


# importing fairseq registers all parts, also in the middle of the first import of one of them
FIRST = """
import os, sys
import torch
for module in sys.argv[1:]:
    child = os.fork()
    if not child:
        __import__(module)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(module)
"""


@pytest.mark.slow
def test_any_module_can_be_imported_first():
    paths = [path.relative_to(ROOT).with_suffix("") for path in PACKAGE.rglob("*.py")]
    names = sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)
    triton = [name for name in names if ".kernels.gpu." in name or name.endswith("fused_adadelta")]
    assert printed(FIRST, *(name for name in names if name not in triton)) == []


@pytest.mark.slow
def test_who_asks_whether_there_is_fairseq_still_gets_the_parts():
    assert ran(ASKED).stdout == "True\n"


def test_help_mistakes_and_pages_need_neither_torch_nor_fairseq(tmp_path):
    lines = printed(STARTS.replace("QUICK", repr(QUICK)), str(tmp_path))
    assert lines == ["a page ", *(f"{name} {words} " for name in QUICK for words in QUICK[name])]
    assert (tmp_path / "index.html").stat().st_size > 1000


def test_garbage_is_collected_again_after_a_start():
    with pytest.raises(UserError), starting():
        assert not gc.isenabled()
        raise UserError("no such model")
    assert gc.isenabled()


def test_a_folder_needs_no_fairseq(tmp_path):
    """It translates and aligns, without torch too; a checkpoint's reader is missed.

    A training ends before it begins.
    """
    (tmp_path / "text.en").write_text("I lost my keys.\n")
    (tmp_path / "text.fr").write_text("J'ai perdu mes clés.\n")
    (tmp_path / "pairs.tsv").write_text("".join(f"word{i}\tmot{i}\n" for i in range(60)))
    (tmp_path / "checkpoint.pt").touch()
    ended = ran(WITHOUT_FAIRSEQ, str(tmp_path))
    assert ended.stdout.splitlines() == ["J'ai perdu mes clés."] * 2, ended.stderr
    for page in ("h/index.html", "a/index.html", "living.html"):
        assert (tmp_path / page).stat().st_size > 1000
    assert not (tmp_path / "work" / "corpus").exists()
    said = "fairseq_rnnsearch: error: this needs fairseq, which is not installed: pip install "
    said += "'fairseq-rnnsearch[fairseq]'"
    assert ended.returncode == 1 and ended.stderr.splitlines()[-1].startswith(said), ended.stderr
