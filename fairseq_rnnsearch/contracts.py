"""What the parts of this package ask of each other, beside what fairseq asks of them.

A batch goes from the task, which knows the data, through the criterion to the model, and its
gradient to the optimizer:

    tasks.AlignmentHeatmapTask.train_step          hands a batch on
      criterions.AlignmentHeatmapCriterion         the cost, and where attention looks
        models.RNNSearchModel -> network -> kernels
      optim.RNNSearchAdadelta.clip_grad_norm       what happens when a gradient is not finite

Each of them also works with fairseq's parts in the place of the others. So they ask
``isinstance(part, Contract)``, of what ``unwrapped`` returns where it is a model, and do without
otherwise. A class that keeps a contract names it among its bases.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

# Positions of a sentence: the recurrences set no limit, but fairseq wants a number of the task and
# of the models.
ANY_LENGTH = 1_000_000


@runtime_checkable
class ScoresTargets(Protocol):
    """A model that gives the cost of the right words without ever holding all logits.

    ``forward(**net_input, target=..., label_smoothing=...)`` returns the summed cost and the
    summed -log p in the place of the logits.
    """

    def scores_targets(self) -> bool:
        """Tell whether this model does so with its options."""


@runtime_checkable
class AsksForCost(Protocol):
    """A criterion that asks a model of ``ScoresTargets`` for the cost and not for logits."""

    def asks_for_cost(self) -> bool:
        """Tell whether it does so with its options."""


@runtime_checkable
class ReadsBatches(Protocol):
    """A criterion that may give a batch to the model more than once at the same time."""

    def readings(self) -> int:
        """Tell how often it does so in training."""


@runtime_checkable
class GuidesAttention(Protocol):
    """A criterion that knows what to do with links between the words of a batch.

    fairseq's collater keeps them in ``sample["alignments"]``, with ``sample["align_weights"]``.
    """

    def alignment_cost(self, attention: Tensor | None, sample: dict) -> tuple[Tensor, Tensor]:
        """Return what the weights cost beside the links, and how many target words have some.

        Args:
            attention: alignment weights, ``(batch, target, source)``.
        """


@runtime_checkable
class ShowsAlignment(Protocol):
    """A decoder that says whether it has attention; fairseq's own do not, and are taken to.

    One that has takes ``posterior=True`` beside given words, see ``network.Decoder.posterior``.
    """

    @property
    def has_alignment(self) -> bool:
        """Whether there are alignment weights to look at."""


@runtime_checkable
class TakesSteps(Protocol):
    """A decoder that a search can lead from word to word, see ``kernels``."""

    @property
    def steps_are_fast(self) -> bool:
        """Whether a search had better take ``begin`` than fairseq's way to call a decoder."""

    def check_search(self) -> None:
        """Check that a search makes sense.

        Raises:
            UserError: for a decoder that only scores given words.
        """

    def begin(self, encoder_out: Any) -> Any:
        """Return the decoder's steps for what the encoder has returned."""


@runtime_checkable
class ChecksTraining(Protocol):
    """A model that knows with what it cannot be trained."""

    def check_training(self, *, has_links: bool, begins_from_model: bool, readings: int) -> None:
        """Check that there is something to learn, and warn of what will be learned ill.

        Args:
            has_links: whether attention is guided (``--guided-alignment``).
            begins_from_model: whether training begins with a trained model's parameters.
            readings: how often it reads each batch at the same time, see ``ReadsBatches``.

        Raises:
            UserError: for a model that lacks what it needs of these.
        """


@runtime_checkable
class CollectsAlignments(Protocol):
    """A task that draws alignments of validations, and collects them of the criterion."""

    def collect_alignments(
        self, ids: Tensor, source: Tensor, target: Tensor, attention: Tensor
    ) -> None:
        """Keep what is to be drawn of a batch.

        Args:
            ids: numbers of the sentences in their data set, ``(batch,)``.
            source, target: words, ``(batch, source)`` and ``(batch, target)``.
            attention: alignment weights, ``(batch, target, source)``.
        """


@runtime_checkable
class ExplainsUpdates(Protocol):
    """A task that knows the sentences of the update that is being made."""

    def explain_update(self) -> str:
        """Say in words what of it is not finite."""


@runtime_checkable
class AnswersNonfinite(Protocol):
    """An optimizer that decides what happens when a gradient is not finite."""

    def begin_update(self, explain: Callable[[], str]) -> None:
        """Take the function that explains the update if its gradient is not finite."""

    def answers_later(self) -> bool:
        """Tell whether the norm of the gradient that was clipped last is still on its GPU.

        What follows from it has been decided there, and nobody else needs to look at it.
        """

    def answer(self) -> None:
        """Read what is still on the GPU, and answer what is not finite.

        Raises:
            UserError: where that ends the training.
        """


@runtime_checkable
class ReadFromFile(Protocol):
    """A dictionary that knows its file, which messages name."""

    path: str


def file_of(dictionary: object) -> str:
    """Return `` (file)`` of a dictionary, or nothing where its file is not known."""
    return f" ({dictionary.path})" if isinstance(dictionary, ReadFromFile) else ""


def unwrapped(model: nn.Module) -> nn.Module:
    """Return a model without what shares its gradients with other processes."""
    while hasattr(model, "module"):  # torch's and fairseq's wrappers name it so
        model = model.module
    return model
