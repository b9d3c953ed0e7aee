"""What fairseq-fixed 0.12.3.1 needs on today's Python and torch.

``apply`` is called once, when the package is imported. Each mend names what happens without it.
"""

from fairseq import checkpoint_utils

from fairseq_rnnsearch.compat.amp import unscale_gradients_once
from fairseq_rnnsearch.compat.archives import unpack_within_the_folder
from fairseq_rnnsearch.compat.checkpoints import (
    explain_what_does_not_fit_a_checkpoint,
    read_checkpoints_as_data,
    refuse_other_checkpoints_in_one_line,
)
from fairseq_rnnsearch.compat.data_loading import mend_data_loading
from fairseq_rnnsearch.compat.evaluated_options import read_options_as_values
from fairseq_rnnsearch.compat.locking import let_one_training_use_a_folder
from fairseq_rnnsearch.compat.logs import let_trainings_outlive_their_logs
from fairseq_rnnsearch.compat.memory import let_batches_without_memory_be_skipped
from fairseq_rnnsearch.compat.messages import let_hydra_pass_errors_on, quieten
from fairseq_rnnsearch.compat.nonfinite import stop_in_one_line_for_a_nonfinite_gradient
from fairseq_rnnsearch.compat.options import check_options_first
from fairseq_rnnsearch.compat.plain_state import (
    keep_counts_as_lists,
    let_processes_share_a_checkpoint,
)
from fairseq_rnnsearch.compat.preprocessing import check_text_before_preprocessing
from fairseq_rnnsearch.compat.processes import (
    let_torchrun_start_one_training,
    name_lost_processes,
)
from fairseq_rnnsearch.compat.resuming import (
    begin_at_the_newest_checkpoint,
    explain_what_does_not_fit_the_epoch,
    let_averages_begin_on_a_resume,
    let_patience_survive_a_resume,
    let_schedules_survive_a_resume,
    let_the_epoch_begin_anew,
)
from fairseq_rnnsearch.compat.saving import write_checkpoints_whole
from fairseq_rnnsearch.compat.training import mend_training_when_it_begins
from fairseq_rnnsearch.errors import install_excepthook


def apply() -> None:
    """Mend fairseq in this process; not again when the package is imported by another name."""
    if getattr(checkpoint_utils, "is_mended", False):
        return
    checkpoint_utils.is_mended = True
    quieten()
    install_excepthook()
    let_hydra_pass_errors_on()
    read_options_as_values()
    check_options_first()
    read_checkpoints_as_data()
    keep_counts_as_lists()
    let_processes_share_a_checkpoint()
    refuse_other_checkpoints_in_one_line()
    explain_what_does_not_fit_a_checkpoint()
    unpack_within_the_folder()
    check_text_before_preprocessing()
    mend_data_loading()
    write_checkpoints_whole()
    let_one_training_use_a_folder()
    explain_what_does_not_fit_the_epoch()
    let_the_epoch_begin_anew()
    let_averages_begin_on_a_resume()
    let_patience_survive_a_resume()
    let_schedules_survive_a_resume()
    begin_at_the_newest_checkpoint()
    let_batches_without_memory_be_skipped()
    let_trainings_outlive_their_logs()
    mend_training_when_it_begins()
    stop_in_one_line_for_a_nonfinite_gradient()
    unscale_gradients_once()
    let_torchrun_start_one_training()
    name_lost_processes()
