"""Fixtures of all tests: Chromium, and the numbers recorded from the authors' program."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from authors import authors_params, recorded_numbers
from launchpad import BEGUN

pytest_plugins = ["trained"]

sys.path.append(str(Path(__file__).resolve().parents[1] / "recipes"))  # for reporting

# Before torch is imported, here and in the commands that tests start: the tensors are tiny, and
# threads that wait for each other on a busy machine turn seconds into minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what drives Chromium as slow; put the files that start commands, the longest, first.

    The workers share whole files, and end at about the same time when the last ones are short.
    """
    begins_one = {"learned", "small_corpus", "barely_trained", "launchpad"}
    first = {item.module for item in items if begins_one & {*item.fixturenames}}
    items.sort(key=lambda item: item.module not in first)
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # of pytest-xdist, in a worker
        session.config.workeroutput["begun"] = dict(BEGUN)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    BEGUN.update(getattr(node, "workeroutput", {}).get("begun", {}))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(", ".join(f"{number} {kind}" for kind, number in BEGUN.items()))


CHROMIUM_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
    " --window-size=1280,1000"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver_binary = shutil.which("chromedriver")
    if not binary or not driver_binary:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in CHROMIUM_FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(driver_binary))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def reference():
    return recorded_numbers()


@pytest.fixture
def groundhog_params():
    """A fresh copy for each test."""
    return authors_params()
