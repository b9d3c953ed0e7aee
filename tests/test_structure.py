"""What is replaced in fairseq, and when; what an import brings with it."""

from argparse import Namespace

import commands
import pytest
from omegaconf import OmegaConf
from slow_cases import cases

from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.runs.options import check_configuration

SEEN = """
import sys, types

def attributes():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in {"fairseq", "fairseq_cli", "torch", "sys", "builtins", "os",
                                  "logging", "signal", "warnings", "argparse", "atexit"}:
            for attribute, value in list(vars(module).items()):
                found[name, attribute] = id(value)
                if isinstance(value, type) and value.__module__.split(".")[0] in {
                    "fairseq", "fairseq_cli", "torch", "argparse", "logging"
                }:
                    for inner, held in list(vars(value).items()):
                        found[f"{value.__module__}:{value.__qualname__}", inner] = id(held)
    return found

def changed(before, after):
    return sorted({key for key in before.keys() & after.keys() if before[key] != after[key]}
                  | {key for key in after.keys() - before.keys() if key[0] in old})
"""
PROGRAMS = "import fairseq_cli.generate, fairseq_cli.interactive, fairseq_cli.preprocess\n" + (
    "import fairseq_cli.train, fairseq_cli.validate, torch.utils.data.dataloader\n"
)


def run(program, *arguments):
    """What a program prints, in a process that has imported fairseq and not this package."""
    return commands.run("python", "-c", program, *arguments).ok().out


REPLACED = """
import matplotlib, sacrebleu, torch._dynamo
import fairseq.sequence_scorer, torch.nn.parallel
before, old = attributes(), {name for name, _ in attributes()}
import fairseq_rnnsearch
registered = [key for key in changed(before, attributes())
              if not key[1].startswith("_") and "fairseq_rnnsearch" not in key[1]]
assert not registered, registered

from fairseq_rnnsearch.runs import patches
before, old = attributes(), {name for name, _ in attributes()}
with patches.reading_as_data():
    names = {name for _, name in changed(before, attributes())}
    assert names == {patch.name for patch in patches.READING}, names
assert not changed(before, attributes())

patches.patch_fairseq()
replaced = {name for _, name in changed(before, attributes())}
assert replaced == {patch.name for patch in patches.PATCHES}, replaced
assert len({(str(one.owner), one.name) for one in patches.PATCHES}) == len(patches.PATCHES)
again = attributes()
patches.patch_fairseq()
assert not changed(again, attributes())
"""


def test_the_table_is_what_is_replaced():
    """An import changes nothing but registries, and what `load` replaces is given back."""
    run(SEEN + PROGRAMS + REPLACED)


def test_options_are_checked_in_one_namespace_and_in_groups():
    options = {"task": "alignment_heatmap", "max_source_positions": 0}
    group = {"_name": options["task"], "max_source_positions": 0}
    for cfg in (Namespace(**options), OmegaConf.create({"task": group})):
        with pytest.raises(UserError, match=r"^--max-source-positions 0"):
            check_configuration(cfg)


IMPORTS = ["import fairseq_rnnsearch\n", "from fairseq_cli import train\n"]


@pytest.mark.parametrize("order", cases(["".join(IMPORTS), "".join(IMPORTS[::-1])]))
def test_commands_are_patched_in_either_order_of_imports(order, tmp_path):
    program = order + (
        "import sys\n"
        f"sys.argv[1:] = [{str(tmp_path)!r}, '--arch', 'rnnsearch_30', '--task',"
        " 'alignment_heatmap', '--batch-size', '0', '--cpu']\n"
        "train.cli_main()"
    )
    assert "--batch-size 0" in commands.run("python", "-c", program).error()


LATE = """
import sys
from fairseq_rnnsearch.runs import patches
import fairseq.sequence_scorer
patches.patch_fairseq()
print([name for name in sys.modules if name.startswith("fairseq_cli.")])
from fairseq_cli import train
train.cli_main()
"""


def test_a_program_that_is_imported_after_the_patching_trains(small_corpus, tmp_path):
    options = f"{commands.TASK} {commands.QUIET} {commands.MODEL} {commands.PAPER}"
    options += f" --max-update 1 --heatmap-samples 0 --save-dir={tmp_path}"
    trained = commands.run("python", "-c", LATE, small_corpus.data, options).ok()
    assert trained.out.splitlines()[0] == "[]"
    assert (tmp_path / "checkpoint_last.pt").exists()


@pytest.mark.slow
def test_a_process_that_fairseq_starts_is_patched_too():
    """fairseq hands a program's main to the processes of a machine with several GPUs."""
    begun = (
        "import pickle, sys, fairseq_rnnsearch\n"
        "from fairseq_cli import train\n"
        "from fairseq_rnnsearch.runs import patches\n"
        "patches.patch_fairseq()\n"
        "print(pickle.dumps(train.main).hex())"
    )
    child = (
        "import pickle, sys\n"
        "main = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "from fairseq_cli import train\n"
        "from fairseq_rnnsearch.plugin.task import AlignmentHeatmapTask\n"
        "try:\n"
        "    AlignmentHeatmapTask.load_dictionary('nosuch')\n"
        "except ValueError:\n"
        "    print(main.__name__, train.Trainer.__name__)"
    )
    sent = run(begun).split()[-1]
    assert run(child, sent).splitlines()[-1] == "main ResumableTrainer"
