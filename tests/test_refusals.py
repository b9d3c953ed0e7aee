"""What a user gives wrongly, in options, files or checkpoints, ends a command with one line."""

import pytest
import torch

from fairseq_rnnsearch import align
from fairseq_rnnsearch.devices import usable_device
from fairseq_rnnsearch.errors import UserError

NO_DEVICES = ("xyz", "meta", "cuda:99", "", "CPU", "xla", None, 5)


@pytest.mark.survives("bad input", cases=len(NO_DEVICES))
@pytest.mark.parametrize("name", NO_DEVICES)
def test_devices_that_are_none(name):
    with pytest.raises(UserError) as caught:
        usable_device(name, "--device")
    assert str(caught.value).startswith(f"--device {str(name)!r}: must be one of cpu")


def test_devices_that_are_there():
    assert usable_device("cpu") == usable_device(torch.device("cpu")) == torch.device("cpu")
    if torch.accelerator.is_available():
        kind = torch.accelerator.current_accelerator().type
        assert usable_device(f"{kind}:0") == torch.device(kind, 0)


def test_align_looks_at_the_device_before_it_reads(tmp_path):
    options = "--path=x.pt --source=x.en --target=x.fr --device=meta --heatmap-dir"
    with pytest.raises(UserError, match=r"^--device .meta.: must be one of cpu"):
        align.main(["data", *options.split(), str(tmp_path / "out")])
