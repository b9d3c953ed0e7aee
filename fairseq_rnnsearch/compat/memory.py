"""A batch that needs more memory than there is, without a GPU."""

import functools

from fairseq.tasks.fairseq_task import FairseqTask


def let_batches_without_memory_be_skipped() -> None:
    """Lose one batch and not the run, on a CPU too.

    fairseq's trainer clears up and goes on when an error says "out of memory", as CUDA's does; the
    CPU's speaks of memory that cannot be allocated, and would end the training.
    """
    if getattr(FairseqTask.train_step, "says_out_of_memory", False):
        return

    def in_fairseqs_words(step) -> object:
        @functools.wraps(step)
        def step_or_explain(self, sample, *args, **kwargs) -> tuple:
            try:
                return step(self, sample, *args, **kwargs)
            except (MemoryError, RuntimeError) as problem:
                if not (isinstance(problem, MemoryError) or "t allocate memory" in str(problem)):
                    raise
                raise RuntimeError(_explanation(sample, problem)) from problem

        step_or_explain.says_out_of_memory = True
        return step_or_explain

    FairseqTask.train_step = in_fairseqs_words(FairseqTask.train_step)
    FairseqTask.valid_step = in_fairseqs_words(FairseqTask.valid_step)


def _explanation(sample: dict, problem: Exception) -> str:
    """What the batch was, and what would make it smaller."""
    ids = sample["id"].tolist()
    shown = ", ".join(map(str, ids[:5])) + ", ..." * (len(ids) > 5)
    source = sample["net_input"]["src_tokens"].shape[1]
    target = sample["target"].shape[1]
    reason = (str(problem) or "none is left").splitlines()[0][:200]
    return (
        f"out of memory in a batch of {len(ids)} sentences ({shown}), the longest of {source}"
        f" source and {target} target words; a smaller --batch-size, --max-tokens or"
        f" --max-train-words makes it smaller: {reason}"
    )
