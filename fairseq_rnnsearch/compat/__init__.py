"""What fairseq-fixed 0.12.3.1 needs on today's Python and torch.

``apply`` is called once, when the package is imported. Each mend names what happens without it.
"""

import torch

from fairseq_rnnsearch.compat.archives import unpack_within_the_folder
from fairseq_rnnsearch.compat.checkpoints import (
    allow_plain_types_in_checkpoints,
    explain_what_does_not_fit_a_checkpoint,
    refuse_other_checkpoints_in_one_line,
)
from fairseq_rnnsearch.compat.evaluated_options import read_options_as_values
from fairseq_rnnsearch.compat.messages import (
    let_data_loading_processes_end_in_silence,
    let_hydra_pass_errors_on,
    quieten,
)
from fairseq_rnnsearch.compat.nonfinite import stop_in_one_line_for_a_nonfinite_gradient
from fairseq_rnnsearch.compat.preprocessing import check_text_before_preprocessing
from fairseq_rnnsearch.compat.processes import let_torchrun_work_without_gpus
from fairseq_rnnsearch.compat.resuming import let_patience_survive_a_resume
from fairseq_rnnsearch.errors import install_excepthook


def apply() -> None:
    """Mend fairseq in this process."""
    quieten()
    install_excepthook()
    let_hydra_pass_errors_on()
    read_options_as_values()
    allow_plain_types_in_checkpoints()
    refuse_other_checkpoints_in_one_line()
    explain_what_does_not_fit_a_checkpoint()
    unpack_within_the_folder()
    check_text_before_preprocessing()
    let_data_loading_processes_end_in_silence()
    let_patience_survive_a_resume()
    stop_in_one_line_for_a_nonfinite_gradient()
    if not torch.cuda.is_available():
        let_torchrun_work_without_gpus()
