"""--user-dir however it is written, from the checkout or from an installation; distributions."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version

import pytest
from commands import (
    LAST_ONLY,
    MODEL,
    PACKAGE,
    PAPER,
    QUIET,
    ROOT,
    run,
    run_installed,
    run_process,
    write_text,
)
from flit_core import buildapi


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which the package is installed as pip does it."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        + ["--target", folder / "site", source],
        check=True,
    )
    return folder / "site"


@pytest.mark.slow
def test_an_installed_package_names_the_path_to_give(installed, small_corpus, tmp_path):
    environment = {"PYTHONPATH": str(installed)}
    command = ("python", "-m", "fairseq_rnnsearch", "versions")
    shown = run_installed(*command, cwd=tmp_path, **environment).ok()
    first, *versions = shown.out.splitlines()
    assert first == f"--user-dir {installed / 'fairseq_rnnsearch'}"
    assert f"torch {version('torch')}" in versions
    assert f"fairseq-fixed {version('fairseq-fixed')}" in versions
    for folder, user_dir in enumerate((first.removeprefix("--user-dir "), "fairseq_rnnsearch")):
        # with the second, the checkout's copy is used, though there is an installed one
        run_installed(
            *("fairseq-train", small_corpus.data, f"--user-dir={user_dir}"),
            f"--task alignment_heatmap {MODEL} {PAPER} {QUIET} {LAST_ONLY} --max-update 1",
            f"--save-dir={tmp_path / str(folder)}",
            cwd=ROOT if folder else tmp_path,
            **environment,
        ).ok()


def files_in(folder, beside):
    """The paths of all files of a folder, seen from another one, without what Python compiles."""
    return sorted(
        os.path.relpath(os.path.join(inner, name), beside)
        for inner, _, names in os.walk(folder)
        for name in names
        if "__pycache__" not in inner
    )


@pytest.mark.slow
def test_an_installed_package_leads_from_text_to_a_model(installed, tmp_path):
    """Where there is no checkout."""
    write_text(tmp_path, train=60)
    sizes = "--embedding 8 --hidden 8 --attention 8 --maxout 8 --bpe-copies 2 --updates 4 --drawn 1"
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}

    def script(name, *options):
        return run_process(
            [sys.executable, "-P", installed / "bin" / name, *options],
            cwd=tmp_path,
            env=environment,
            input="red house",
        )

    files = "--source train.en --target train.fr --work work"
    trained = script("rnnsearch-train", *files.split(), *sizes.split())
    assert trained.returncode == 0, trained.stderr
    log = (tmp_path / "work" / "logs" / "train.log").read_text()
    assert str(installed) in log and str(PACKAGE) not in log
    translated = script("rnnsearch-translate", "work")
    assert translated.returncode == 0 and translated.stdout.count("\n") == 1, translated.stderr


@pytest.mark.slow
def test_without_the_extra_there_is_no_torch(tmp_path):
    """In a fresh environment, for which pip fetches everything."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    scripts = tmp_path / "venv" / "bin"
    subprocess.run([scripts / "pip", "install", "--quiet", ROOT], check=True)

    def script(name, *options):
        environment = {**os.environ, "PYTHONPATH": ""}
        words = [scripts / name, *options]
        return run_process(words, cwd=tmp_path, env=environment, input="Red house.")

    versions = script("python", "-m", "fairseq_rnnsearch", "versions").stdout
    for package in ("torch", "fairseq-fixed", "sacrebleu"):
        assert f"{package} is not installed" in versions
    assert script("rnnsearch-path").stdout.startswith(str(tmp_path))
    tokenized = script("rnnsearch-tokenize", "--tokenizer=moses", "--language=en")
    assert tokenized.stdout.strip() == "Red house .", tokenized.stderr
    (tmp_path / "checkpoint.pt").touch()
    refused = script("rnnsearch-translate", "checkpoint.pt")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1, refused.stderr
    assert "pip install 'fairseq-rnnsearch[fairseq]'" in refused.stderr


def test_distributions_have_what_they_need(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    wheel, archive = buildapi.build_wheel(tmp_path), buildapi.build_sdist(tmp_path)
    files = files_in(PACKAGE, ROOT)
    assert "fairseq_rnnsearch/py.typed" in files
    with zipfile.ZipFile(tmp_path / wheel) as distribution:
        installed = distribution.namelist()
    assert sorted(name for name in installed if ".dist-info/" not in name) == files
    with tarfile.open(tmp_path / archive) as distribution:
        found = {name.partition("/")[2] for name in distribution.getnames()}
    expected = {"pyproject.toml", "README.md", "LICENSE"}.union(
        *(files_in(ROOT / name, ROOT) for name in (PACKAGE.name, "recipes", "tests"))
    )
    assert found - {"PKG-INFO"} == expected


TWICE = """
import logging, sys, warnings
from argparse import Namespace
import fairseq_rnnsearch, fairseq.utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq import checkpoint_utils

fairseq_rnnsearch.errors.install_excepthook()
before = sys.excepthook, checkpoint_utils.load_checkpoint_to_cpu, len(warnings.filters)
assert "rnnsearch_50" in ARCH_MODEL_REGISTRY
for path in sys.argv[1:]:
    fairseq.utils.import_user_module(Namespace(user_dir=path))
    fairseq_rnnsearch.errors.install_excepthook()
assert before == (sys.excepthook, checkpoint_utils.load_checkpoint_to_cpu, len(warnings.filters))
"""


def test_imported_before_and_given_as_user_dir_it_is_registered_once():
    finished = run(
        *("python", "-c", TWICE, "fairseq_rnnsearch", PACKAGE, f"{PACKAGE}/"),
        *("./fairseq_rnnsearch/", f"../{ROOT.name}/{PACKAGE.name}"),
        PYTHONPATH=str(ROOT),
    )
    finished.ok()
