"""The options of the task, beside those of ``--task translation``."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from fairseq_rnnsearch.alignment.figures.alignment import SOURCE_END_CHOICES
from fairseq_rnnsearch.alignment.figures.styles import STYLES
from fairseq_rnnsearch.runs.options import ANY_LENGTH


@dataclass
class AlignmentHeatmapConfig(TranslationConfig):
    """Options of the data, of training, of search and of what is shown."""

    # data and batches
    left_pad_source: bool = field(
        default=False, metadata={"help": "pad the source on the left; no result depends on it"}
    )
    max_source_positions: int = field(
        default=ANY_LENGTH, metadata={"help": "longest source sentence in tokens (paper: any)"}
    )
    max_target_positions: int = field(
        default=ANY_LENGTH, metadata={"help": "longest target sentence in tokens (paper: any)"}
    )
    rebuild_batches: bool = field(
        default=True,
        metadata={"help": "with --batch-order fairseq, batches of an epoch depend on the seed and "
                  "the epoch alone, so that a resumed run equals an unbroken one"},
    )  # fmt: skip
    batch_order: ChoiceEnum(["paper", "fairseq"]) = field(
        default="paper",
        metadata={"help": "training batches as in the paper's appendix B.2 (corpus shuffled once, "
                  "20 batches at a time sorted by length) or fairseq's own"},
    )  # fmt: skip
    max_train_words: Optional[int] = field(
        default=None,
        metadata={"help": "drop training pairs with a side of more words, end symbol not counted "
                  "(default: the architecture's, 30 or 50; 0: keep all)"},
    )  # fmt: skip

    # training
    guided_alignment: Optional[str] = field(
        default=None,
        metadata={"help": "file of links that attention is trained to follow: a line for each "
                  "training pair, in the order of the data, of links i-j between words, the "
                  "source first, from 0 (Pharaoh format; several data folders: as many files, "
                  "with : between)"},
    )  # fmt: skip
    finetune_from_model: Optional[str] = II("checkpoint.finetune_from_model")
    restore_file: str = II("checkpoint.restore_file")

    # search
    authors_search: bool = field(
        default=False,
        metadata={"help": "the authors' beam search: each sentence limited by its own length, the "
                  "beam shrinking with every finished hypothesis (add --unnormalized for their "
                  "scores)"},
    )  # fmt: skip
    forbid_unk: bool = field(
        default=False, metadata={"help": "never generate the unknown word (paper's Table 1)"}
    )

    # what is shown
    heatmap_dir: Optional[str] = field(
        default=None,
        metadata={"help": "draw alignments here: in training of validation sentences (default: "
                  "<save-dir>/heatmaps), in fairseq-generate of translations (default: none)"},
    )  # fmt: skip
    heatmap_samples: Optional[str] = field(
        default=None,
        metadata={"help": "which sentences: a number (the first N), all, or ids:3,17, from 0 "
                  "(default: 4 in training, all translations)"},
    )  # fmt: skip
    heatmap_format: str = field(
        default="png",
        metadata={"help": "any of png,pdf,svg (a picture a sentence), text, html "
                  "(one page), jsonl (weights), pharaoh (hard links); in training png makes a "
                  "series and an animation"},
    )  # fmt: skip
    heatmap_style: ChoiceEnum(list(STYLES)) = field(
        default="paper",
        metadata={"help": "of pictures and the page: paper (white on black, as in Figure 3), "
                  "inverted (black on white, for print), slides (black on white, large)"},
    )  # fmt: skip
    heatmap_title: Optional[str] = field(
        default=None,
        metadata={"help": "title of the page (default: the data's name and languages)"},
    )
    heatmap_pieces: ChoiceEnum(["merge", "keep"]) = field(
        default="merge",
        metadata={"help": "subword pieces (@@): merged to words, summed over the source and "
                  "averaged over the target, or kept"},
    )  # fmt: skip
    heatmap_source_end: ChoiceEnum(list(SOURCE_END_CHOICES)) = field(
        default="keep",
        metadata={"help": "column of the source's end symbol: kept, because it is part of what the "
                  "model computed; dropped; or dropped and the other weights made to sum to one"},
    )  # fmt: skip
    heatmap_keep: int = field(
        default=50,
        metadata={"help": "validations whose pictures are kept in training; older ones are thinned "
                  "out evenly (0: all are kept)"},
    )  # fmt: skip
    save_dir: str = II("checkpoint.save_dir")
    path: Optional[str] = II("common_eval.path")
    tensorboard_logdir: Optional[str] = II("common.tensorboard_logdir")
