"""The paper's cost, and statistics of the model's attention.

The cost of an update is the sum of -log p over all words of all its sentences; the gradient
that is clipped is that of the sum (the authors' program).
"""

import math
from dataclasses import dataclass, field

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor, nn

from fairseq_rnnsearch.checks import excludes, in_range
from fairseq_rnnsearch.decoding.decode import soft_alignment
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.kernels.derived import accurate_type
from fairseq_rnnsearch.kernels.rdrop import rdrop_cost, twice

# not from the room: what imports it first may still be importing it when this is registered
from fairseq_rnnsearch.plugin.model import RNNSearchModel
from fairseq_rnnsearch.runs.patches import PatchesFairseq
from fairseq_rnnsearch.runs.trainer import AlignmentTask, unwrapped

ATTENTION_STATISTICS = ("attn_entropy", "attn_max", "attn_eos")


@dataclass
class AlignmentHeatmapCriterionConfig(FairseqDataclass):
    """The defaults are the authors'."""

    cost_scale: ChoiceEnum(["sum", "sentence", "word"]) = field(
        default="sum",
        metadata={"help": "take an update's gradient of the cost summed over its sentences "
                  "(authors' program), or of the mean per sentence or per word",
                  "check": excludes(
                      {"sentence_avg": False}, "this criterion's own option is --cost-scale"
                  )},
    )  # fmt: skip
    label_smoothing: float = field(
        default=0.0,
        metadata={"help": "probability spread over all other words (paper: none)",
                  "check": in_range(0, 1)},
    )  # fmt: skip
    guided_alignment_weight: float = field(
        default=0.1,
        metadata={"help": "weight of the cost for alignment weights that do not follow the links "
                  "of --guided-alignment, relative to the translation cost",
                  "check": in_range(0)},
    )  # fmt: skip
    rdrop_alpha: float = field(
        default=0.0,
        metadata={"help": "weight of R-Drop (Liang et al., 2021): training reads each batch twice, "
                  "with different dropout, and makes both predictions agree (paper: none)",
                  "check": in_range(0)},
    )  # fmt: skip


@register_criterion("alignment_heatmap", dataclass=AlignmentHeatmapCriterionConfig)
class AlignmentHeatmapCriterion(PatchesFairseq, FairseqCriterion):
    """Negative log-likelihood and attention statistics.

    Where the task knows links between the words of a batch (``--guided-alignment``, or fairseq's
    ``--load-alignments``), attention is guided (Chen et al., 2016): to the cost is added, times
    ``--guided-alignment-weight``, the cross entropy between the links of each target word, of equal
    shares, and its alignment weights. A word without links adds nothing.

        - sum over target words i with links  1 / |links of i|  sum over links j of i  log alpha_ij

    With ``--rdrop-alpha``, training reads each batch twice, with different dropout, and makes the
    predictions agree, see ``rdrop``.

    Logged for training and validation:

    - ``loss``: the cost in bits per sentence, or per word with ``--cost-scale word``;
    - ``nll_loss``, ``ppl``: bits per word and perplexity, as fairseq's ``cross_entropy``;
    - ``nats_per_sentence``: the unit of the paper's Table 2;
    - ``attn_entropy`` (bits), ``attn_max``, ``attn_eos``: entropy of the alignment weights,
      largest weight, weight of the source's end symbol, each a mean over target words. Absent
      for models without attention;
    - ``alignment_loss``: the cross entropy of guided attention in bits per target word with links,
      not part of ``loss``. Absent without links;
    - ``rdrop_loss``: the distance between R-Drop's two predictions in bits per word, the mean of
      the KL divergences in both directions. ``loss`` includes it, weighted. Absent in validation.
    """

    def __init__(
        self,
        task,
        cost_scale: str,
        label_smoothing: float,
        guided_alignment_weight: float = 0.1,
        rdrop_alpha: float = 0.0,
    ) -> None:
        super().__init__(task)
        self.cost_scale = str(cost_scale)
        self.label_smoothing = label_smoothing
        self.guided_alignment_weight = guided_alignment_weight
        self.rdrop_alpha = rdrop_alpha
        self.source_eos = task.source_dictionary.eos()
        self._collects = isinstance(task, AlignmentTask)

    def check_training(self, model: nn.Module) -> None:
        """Check that R-Drop has something to learn.

        Raises:
            UserError: if this package's model would read a batch twice in the same way.
        """
        if (
            self.rdrop_alpha
            and isinstance(model, RNNSearchModel)
            and not any(part.p for part in model.modules() if isinstance(part, nn.Dropout))
        ):
            raise UserError(
                "--rdrop-alpha needs dropout, without which both readings of a batch are the same: "
                "give --dropout 0.3, for example"
            )

    def forward(self, model, sample: dict) -> tuple[Tensor, int, dict]:
        """Return the cost of one batch.

        Returns:
            summed cost; the divisor of its gradient; quantities to log, all of which may be
            summed over batches and processes.
        """
        score = self._score_twice if self.rdrop_alpha and model.training else self._score
        attention, target, (loss, nll, *apart) = score(model, sample)
        sentences = target.size(0)
        logging_output = {
            "loss": loss.detach(),
            "nll_loss": nll.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sentences,
            "sample_size": sample["ntokens"] if self.cost_scale == "word" else sentences,
        }
        if apart:
            logging_output["rdrop_loss"] = apart[0]
        alignment_cost, linked = self.alignment_cost(attention, sample)
        if attention is not None:
            logging_output |= {"alignment_loss": alignment_cost.detach(), "linked": linked}
            attention = attention.detach()
            source = sample["net_input"]["src_tokens"]
            is_word = target.ne(self.padding_idx)
            logging_output |= attention_statistics(attention, is_word, source.eq(self.source_eos))
            if self._collects and not model.training:
                self.task.collect_alignments(sample["id"], source, target, attention)
        # an infinite cost can have a finite gradient, but the update is not sound: 0 x inf is NaN
        sound = 1 + 0 * loss.detach()
        loss = (loss + self.guided_alignment_weight * alignment_cost) * sound
        # fairseq's trainer divides the summed gradient of an update by the summed divisors of all
        # batches and processes, and leaves it alone when that is zero
        divisors = {"sum": 0, "sentence": sentences, "word": sample["ntokens"]}
        return loss, divisors[self.cost_scale], logging_output

    def alignment_cost(self, attention: Tensor | None, sample: dict) -> tuple[Tensor, Tensor]:
        """Return the cost of weights that do not follow links, and the number of linked words.

        fairseq's collater keeps links in ``sample["alignments"]``, with
        ``sample["align_weights"]``.

        Args:
            attention: alignment weights, ``(batch, target, source)``.

        Raises:
            UserError: for links that the weights of a model without attention cannot follow.
        """
        if "alignments" not in sample:
            zero = torch.zeros((), device=sample["target"].device)
            return zero, zero
        if attention is None:
            raise UserError(
                "--guided-alignment and --load-alignments need a model whose attention can be "
                "seen, and this model shows none"
            )
        return guided_alignment_cost(attention, sample["alignments"], sample["align_weights"])

    def _score(self, model, sample: dict) -> tuple[Tensor | None, Tensor, tuple[Tensor, ...]]:
        """Return the alignment weights, the correct words, and their summed cost and -log p."""
        source = sample["net_input"]["src_tokens"]
        if isinstance(unwrapped(model), RNNSearchModel):
            target = sample["target"]
            net_output = model(
                **sample["net_input"],
                target=target,
                label_smoothing=self.label_smoothing,
                guides_attention="alignments" in sample,
            )
            return soft_alignment(net_output, target, source), target, net_output[0]
        net_output = model(**sample["net_input"])
        target = model.get_targets(sample, net_output)
        lprobs = model.get_normalized_probs(net_output, log_probs=True)
        costs = self._cost(lprobs.flatten(0, 1), target.flatten())
        return soft_alignment(net_output, target, source), target, costs

    def _score_twice(self, model, sample: dict) -> tuple[Tensor | None, Tensor, tuple[Tensor, ...]]:
        """Return ``_score``'s results for R-Drop, and the distance between both predictions.

        The weights are those of the first reading.
        """
        net_input = utils.apply_to_sample(twice, sample["net_input"])
        net_output = model(**net_input)
        target = model.get_targets(sample, net_output)
        if isinstance(unwrapped(model), RNNSearchModel):
            logits = net_output[0]
        else:  # log p serves as well as logits
            logits = model.get_normalized_probs(net_output, log_probs=True)
        present, smoothing = target.ne(self.padding_idx), self.label_smoothing
        costs = rdrop_cost(logits, target, present, smoothing, self.rdrop_alpha)
        attention = soft_alignment(net_output, twice(target), net_input["src_tokens"])
        return None if attention is None else attention[::2], target, costs

    def _cost(self, lprobs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed cost and the summed -log p; they differ by label smoothing."""
        if self.label_smoothing:
            return label_smoothed_nll_loss(
                lprobs, target.unsqueeze(-1), self.label_smoothing, ignore_index=self.padding_idx
            )
        nll = torch.nn.functional.nll_loss(
            lprobs, target, ignore_index=self.padding_idx, reduction="sum"
        )
        return nll, nll

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        """Log means over the batches of an update or a validation."""

        def total(key: str) -> float:
            return sum(utils.item(log.get(key, 0)) for log in logging_outputs)

        sample_size, words, sentences = map(total, ("sample_size", "ntokens", "nsentences"))
        nll = total("nll_loss")
        metrics.log_scalar("loss", total("loss") / sample_size / math.log(2), sample_size, round=3)
        metrics.log_scalar("nll_loss", nll / words / math.log(2), words, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        metrics.log_scalar("nats_per_sentence", nll / sentences, sentences, round=3)
        if all(ATTENTION_STATISTICS[0] in log for log in logging_outputs):
            for name in ATTENTION_STATISTICS:
                metrics.log_scalar(name, total(name) / words, words, round=3)
        if any("rdrop_loss" in log for log in logging_outputs):
            bits = total("rdrop_loss") / words / math.log(2)
            metrics.log_scalar("rdrop_loss", bits, words, round=3)
        if linked := total("linked"):
            bits = total("alignment_loss") / linked / math.log(2)
            metrics.log_scalar("alignment_loss", bits, linked, round=3)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def guided_alignment_cost(
    attention: Tensor, links: Tensor, shares: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the cross entropy of links and alignment weights, and the number of linked words.

    Args:
        attention: alignment weights, ``(batch, target, source)``.
        links: ``(links, 2)``: a source position, and a position of the target flattened over the
            batch, as fairseq's collater gives them.
        shares: ``(links,)``: 1 / number of links of the same target word.
    """
    source, position = links.unbind(dim=1)
    width = attention.size(1)
    alpha = attention[position // width, position % width, source]
    alpha = alpha.to(accurate_type(alpha.dtype))
    # the cost of a weight that was rounded to zero is large but finite
    log_alpha = alpha.clamp_min(torch.finfo(alpha.dtype).tiny).log()
    return -(shares * log_alpha).sum(), shares.sum()


def attention_statistics(attention: Tensor, is_word: Tensor, is_eos: Tensor) -> dict[str, Tensor]:
    """Return the sums over target words that ``reduce_metrics`` turns into means.

    Args:
        attention: alignment weights, ``(batch, target, source)``.
        is_word: false at padding, ``(batch, target)``.
        is_eos: true at the end symbol, ``(batch, source)``.
    """
    # mask rather than select: the program would wait for a GPU to count the words
    weights = torch.where(is_word.unsqueeze(-1), attention.float(), 0.0)
    return {
        "attn_entropy": torch.special.entr(weights).sum() / math.log(2),
        "attn_max": weights.amax(dim=-1).sum(),
        "attn_eos": (weights * is_eos.unsqueeze(1)).sum(),
    }
