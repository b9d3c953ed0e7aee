"""The task's options, in addition to those of ``--task translation``."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from fairseq_rnnsearch.checks import PIECES, excludes, in_range
from fairseq_rnnsearch.decoding.length_limit import FAIRSEQ_LIMIT
from fairseq_rnnsearch.figures.alignment import SOURCE_END_CHOICES
from fairseq_rnnsearch.figures.pictures import STYLES
from fairseq_rnnsearch.runs.options import ANY_LENGTH


@dataclass
class AlignmentHeatmapConfig(TranslationConfig):
    """Options for data, training, search and display."""

    # data and batches
    left_pad_source: bool = field(
        default=False, metadata={"help": "pad the source on the left; no result depends on it"}
    )
    max_source_positions: int = field(
        default=ANY_LENGTH,
        metadata={"help": "longest source sentence in tokens (paper: any)", "check": in_range(1)},
    )
    max_target_positions: int = field(
        default=ANY_LENGTH,
        metadata={"help": "longest target sentence in tokens (paper: any)", "check": in_range(1)},
    )
    upsample_primary: int = field(
        default=1,  # with fairseq's -1, no set of sentence pairs has a second part
        metadata={"help": "how often to read train, if there is a train1 beside it",
                  "check": excludes(
                      {"guided_alignment": None, "load_alignments": False},
                      "--upsample-primary would repeat pairs without their links; drop one of them",
                      unless=1,
                  )},
    )  # fmt: skip
    batch_order: ChoiceEnum(["paper", "fairseq"]) = field(
        default="paper",
        metadata={"help": "training batches as in the paper's appendix B.2 (corpus shuffled once, "
                  "the pairs of 20 updates at a time sorted by length) or fairseq's own",
                  "check": excludes(
                      {"curriculum": 0, "grouped_shuffling": False},
                      "the paper's batch order has its own; leave it out, or choose "
                      "--batch-order fairseq",
                      unless="fairseq",
                  )},
    )  # fmt: skip
    max_train_words: Optional[int] = field(
        default=None,
        metadata={"help": "drop training pairs with more tokens (words or subwords) on either "
                  "side, end symbol not counted (default: the architecture's, 30 or 50; 0: "
                  "keep all)"},
    )  # fmt: skip

    # training
    guided_alignment: Optional[str] = field(
        default=None,
        metadata={"help": "file of word links to train attention on: a line per training pair, in "
                  "the order of the data, with links i-j, the source word first, counted from 0 "
                  "(Pharaoh format; for several data folders one file each, separated by :)",
                  "check": excludes(
                      {"load_alignments": False},
                      "--guided-alignment gives links already; drop one of them",
                  )},
    )  # fmt: skip

    # search
    authors_search: bool = field(
        default=False,
        metadata={"help": "use the authors' beam search: each sentence's own length limits its "
                  "translation, and every finished hypothesis shrinks the beam (add "
                  "--unnormalized for their scores)",
                  "check": excludes(
                      {"min_len": 1, "max_len_a": FAIRSEQ_LIMIT.ratio,
                       "max_len_b": FAIRSEQ_LIMIT.margin, "diversity_rate": -1.0},
                      "--authors-search takes its limits from each sentence's length, and chooses "
                      "the best candidates; drop one of them",
                      unless=False,
                  )},
    )  # fmt: skip
    forbid_unk: bool = field(
        default=False, metadata={"help": "never generate the unknown word (paper's Table 1)"}
    )

    # what is shown
    heatmap_dir: Optional[str] = field(
        default=None,
        metadata={"help": "folder for drawings of alignments: validation sentences in training "
                  "(default: <save-dir>/heatmaps), translations in fairseq-generate (default: "
                  "none)"},
    )  # fmt: skip
    heatmap_samples: Optional[str] = field(
        default=None,
        metadata={"help": "sentences to draw: a number (the first N), all, or ids:3,17, counted "
                  "from 1 (default: 4 in training, all translations)"},
    )  # fmt: skip
    heatmap_format: str = field(
        default="png",
        metadata={"help": "any of png,pdf,svg (one picture per sentence), text, html "
                  "(one page), jsonl (weights), pharaoh (hard links); in training, png makes a "
                  "series and an animation"},
    )  # fmt: skip
    heatmap_style: ChoiceEnum(list(STYLES)) = field(
        default="paper",
        metadata={"help": "style of pictures and page: paper (white on black, as in Figure 3), "
                  "inverted (black on white, for print), slides (black on white, large)"},
    )  # fmt: skip
    heatmap_pieces: ChoiceEnum(list(PIECES)) = field(
        default="merge",
        metadata={"help": "subword pieces (@@): merged into words, with weights summed over source "
                  "pieces and averaged over target pieces, or kept"},
    )  # fmt: skip
    heatmap_source_end: ChoiceEnum(list(SOURCE_END_CHOICES)) = field(
        default="keep",
        metadata={"help": "column of the source's end symbol: kept, as the model computes it; "
                  "dropped; or dropped, with the other weights rescaled to sum to one"},
    )  # fmt: skip
    save_dir: str = II("checkpoint.save_dir")
    path: Optional[str] = II("common_eval.path")
    post_process: Optional[str] = II("common_eval.post_process")
    tensorboard_logdir: Optional[str] = II("common.tensorboard_logdir")
