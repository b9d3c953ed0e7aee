"""--guided-alignment: the cost and its gradient, links that follow their pairs, and bad files."""

import re
import shutil

import numpy as np
import pytest
import torch
from commands import ADJECTIVES, LAST_ONLY, NOUNS, sides, train
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)
from fairseq.data import Dictionary, LanguagePairDataset
from in_process import fairseq
from models import EOS, PAD, SOURCES, TARGETS, arrays_of, random_model, task_with_data
from oracles import numpy_rnnsearch as oracle
from test_criterion import criterion_of, logged, task_of
from torch.testing import assert_close
from trained import LEARNING

from fairseq_rnnsearch import UserError, load
from fairseq_rnnsearch.decoding.batches import rows_of
from fairseq_rnnsearch.plugin.criterion import AlignmentHeatmapCriterion, guided_alignment_cost
from fairseq_rnnsearch.plugin.guided_alignment import GuidedAlignment, check_guidance
from fairseq_rnnsearch.plugin.task_options import AlignmentHeatmapConfig
from fairseq_rnnsearch.runs.options import check_options

LINKS = [[(0, 0), (1, 0), (0, 2), (1, 3)], [], [], [(0, 1)]]  # of SOURCES and TARGETS


class Numbered(list):
    """Links by the number of a pair, as fairseq wants an ``align_dataset``."""

    def __getitem__(self, index):
        return torch.tensor(super().__getitem__(index), dtype=torch.long).view(-1, 2)


def batch(left):
    """The pairs and their links as fairseq's own collater lays them out."""
    source, target = [[torch.tensor(words) for words in side] for side in (SOURCES, TARGETS)]
    sizes = [[len(words) for words in side] for side in (source, target)]
    words = Dictionary()
    for number in range(10):
        words.add_symbol(f"{number}")
    data = LanguagePairDataset(
        source, sizes[0], words, target, sizes[1], words,
        left_pad_source=left, align_dataset=Numbered(LINKS),
    )  # fmt: skip
    return data.collater([data[i] for i in range(len(source))])


# --- the cost -----------------------------------------------------------------------------------


def guided_cost(p, weight):
    """-log p of all words, and weight times the cross entropy, in slow loops."""
    cost = guided = 0.0
    for x, y, links in zip(SOURCES, TARGETS, LINKS, strict=True):
        found = oracle.forward(p, x, y)
        cost -= found.word_logprobs.sum()
        for i in range(len(y)):
            linked = [j for j, target in links if target == i]
            for j in linked:
                guided -= np.log(found.alignment[i, j]) / len(linked)
    return cost + weight * guided, guided


@pytest.mark.parametrize("kernels", ["reference", "fast"])
@pytest.mark.parametrize("left", [False, True])
def test_cost_and_gradient_equal_the_oracle(kernels, left):
    model = random_model(output_layer="factorised", kernels=kernels)
    p = arrays_of(model)
    criterion = AlignmentHeatmapCriterion(task_of(model), "sum", 0.0, 0.7)
    loss, _, output = criterion(model, batch(left))
    expected, guided = guided_cost(p, 0.7)
    assert_close(loss.item(), expected, rtol=1e-10, atol=0)
    assert_close(output["loss"].item(), guided_cost(p, 0)[0], rtol=1e-10, atol=0)
    bits = guided / 4 / np.log(2)  # four target words have links
    assert logged(criterion, [output, output])["alignment_loss"] == pytest.approx(bits, abs=6e-4)
    loss.backward()
    for name, array in {
        "alignment_model.state_weight": "B_dec_transition_0",
        "alignment_model.annotation_weight": "A_dec_transition_0",
        "unit.recurrent_proposed": "W_dec_transition_0",
    }.items():
        gradient = model.get_parameter(f"decoder.{name}").grad
        place = np.unravel_index(gradient.abs().argmax().item(), gradient.shape)
        slope = oracle.numeric_gradient(lambda: guided_cost(p, 0.7)[0], p[array], place[::-1])
        assert gradient[place].item() == pytest.approx(slope, rel=1e-5), name


def test_fairseqs_own_criterion_takes_the_same_links():
    model = random_model()
    theirs = LabelSmoothedCrossEntropyCriterionWithAlignment(task_of(model), False, 0.0, 0.7)
    ours = AlignmentHeatmapCriterion(task_of(model), "sum", 0.0, 0.7)
    assert_close(theirs(model, batch(False))[0], ours(model, batch(False))[0])


def test_without_links_nothing_changes():
    """But fairseq adds up tensors and other numbers in two sums, each in the order of the keys."""
    model = random_model()
    without = {key: value for key, value in batch(False).items() if not key.startswith("align")}
    outputs = [criterion_of(model)(model, sample) for sample in (batch(False), without)]
    kinds = [[(key, torch.is_tensor(value)) for key, value in x[2].items()] for x in outputs]
    assert kinds[0] == kinds[1]
    assert outputs[1][0] == outputs[1][2]["loss"]
    assert "alignment_loss" not in logged(criterion_of(model), [outputs[1][2]])


def test_a_weight_that_is_rounded_to_zero_has_a_finite_cost():
    model = random_model()
    with torch.no_grad():
        model.decoder.alignment_model.energy_weight.fill_(1e6)
    loss, _, _ = criterion_of(model)(model, batch(False))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_a_small_weight_in_half_precision_has_its_cost():
    weights = torch.full((1, 1, 2), 1e-6, dtype=torch.float16)
    cost, _ = guided_alignment_cost(weights, torch.tensor([[0, 0]]), torch.ones(1))
    assert cost.item() == pytest.approx(-np.log(1e-6), abs=0.1)


# --- links follow their pairs -------------------------------------------------------------------


def numbered_links(text):
    """Links that no other pair of the training text has at its place: drawn by its number."""
    links = []
    for number, (source, target) in enumerate(sides(text, "train")):
        draw = np.random.default_rng(number)
        pairs = [(i, j) for i in range(len(source)) for j in range(len(target))]
        links.append([pair for pair in pairs if draw.random() < 0.4])
    return links


def write_links(path, links):
    lines = [" ".join(f"{i}-{j}" for i, j in pair) for pair in links]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def links_of(sample):
    """The links of each pair of a batch by its number, read back from their flat places."""
    source, target = sample["net_input"]["src_tokens"], sample["target"]
    before = source.ne(PAD).int().argmax(dim=1)  # padding on the left
    found = {number: [] for number in sample["id"].tolist()}
    shares = dict.fromkeys(found, 0.0)
    links = sample["alignments"].tolist() if "alignments" in sample else []
    for (column, place), share in zip(links, sample.get("align_weights", []), strict=True):
        row, position = divmod(place, target.size(1))
        number = int(sample["id"][row])
        found[number].append((column - int(before[row]), position))
        shares[number] += float(share)
    for number, total in shares.items():  # a share of one for each word with links
        assert total == pytest.approx(len({target for _, target in found[number]}))
    return {number: sorted(pair) for number, pair in found.items()}


@pytest.mark.parametrize("order", ["paper", "fairseq"])
@pytest.mark.parametrize("left", [False, True])
def test_shuffled_dropped_shared_and_in_parts(order, left, small_corpus, tmp_path):
    links = numbered_links(small_corpus.text)
    texts = sides(small_corpus.text, "train")
    options = {"max_train_words": 4, "batch_order": order, "left_pad_source": left}
    options["guided_alignment"] = str(write_links(tmp_path / "links", links))
    task = task_with_data(small_corpus, tmp_path, **options)
    data, found = task.dataset("train"), {}
    for shard in range(2):
        task.dataset_to_epoch_iter.clear()
        batches = task.get_batch_iterator(
            data,
            max_sentences=7,
            max_positions=task.max_positions(),
            num_shards=2,
            shard_id=shard,
            seed=3,
        )
        for sample in batches.next_epoch_itr(shuffle=True):
            if not sample:
                continue
            whole = links_of(sample)
            found |= whole
            rows = torch.arange(len(sample["id"]))
            for chosen in (slice(0, 1), slice(len(rows) // 2, 7), rows.flip(0)):
                part = rows_of(sample, chosen, PAD)
                assert links_of(part) == {i: whole[i] for i in part["id"].tolist()}
                assert part["ntokens"] == sum(len(texts[i][1]) + 1 for i in part["id"])
    words = [max(map(len, pair)) for pair in texts]
    expected = {i: links[i] for i, longest in enumerate(words) if longest <= 4}
    assert len(expected) < len(links)
    assert found == expected


def test_each_data_folder_has_its_own_links(small_corpus, tmp_path):
    links = numbered_links(small_corpus.text)
    none = [[] for _ in links]
    files = [write_links(tmp_path / f"{i}", side) for i, side in enumerate((links, none))]
    folders = {"data": f"{small_corpus.data}:{small_corpus.data}"}
    guidance = ":".join(map(str, files))
    task = task_with_data(small_corpus, tmp_path, guided_alignment=guidance, **folders)
    for epoch, expected in ((1, links), (2, none), (3, links)):
        task.load_dataset("train", epoch=epoch, combine=True)
        guided = task.dataset("train").align_dataset
        assert [list(map(tuple, guided[i].tolist())) for i in range(len(links))] == expected


def test_binarised_links_and_those_of_a_second_part(small_corpus, tmp_path):
    links = numbered_links(small_corpus.text)
    for side in ("en", "fr"):
        shutil.copy(small_corpus.text / f"train.{side}", tmp_path)
    write_links(tmp_path / "train.links", links)
    places = f"--trainpref={tmp_path}/train --destdir={tmp_path}/data"
    fairseq("preprocess", f"-s en -t fr --align-suffix links {places}")
    options = {"data": str(tmp_path / "data"), "load_alignments": True}
    read = task_with_data(small_corpus, tmp_path, **options).dataset("train").align_dataset
    assert [list(map(tuple, read[i].view(-1, 2).tolist())) for i in range(len(links))] == links
    for path in (tmp_path / "data").glob("train.en-fr.*"):
        shutil.copy(path, path.with_name(path.name.replace("train.", "train1.")))
    with pytest.raises(UserError, match="has 103 alignments and 206 pairs, with those of train1"):
        task_with_data(small_corpus, tmp_path, **options)
    # a file with a line for each pair goes with both parts
    both = {"guided_alignment": str(write_links(tmp_path / "both", links * 2))}
    guided = task_with_data(small_corpus, tmp_path, data=options["data"], **both).dataset("train")
    assert len(guided.align_dataset) == 206
    for option, given in (("load", {"load_alignments": True}), ("guided", both)):
        with pytest.raises(UserError, match=f"--{option}.*: --upsample-primary would repeat pairs"):
            check_options({"upsample_primary": 2, **given}, AlignmentHeatmapConfig)


def pieces_dataset(*pairs):
    """A data set of pieces, and its dictionary; what is in capitals is unknown."""
    words, sides = Dictionary(), []
    for piece in "a@@ b@@ c d e l'￭ ￭.".split():
        words.add_symbol(piece)
    for side in zip(*pairs, strict=True):
        numbers = [[words.index(piece) for piece in text.split()] + [EOS] for text in side]
        sides.append([torch.tensor(line) for line in numbers])
    sizes = [np.array([len(line) for line in side]) for side in sides]
    return LanguagePairDataset(sides[0], sizes[0], words, sides[1], sizes[1], words)


def test_words_become_pieces(tmp_path, caplog):
    """A piece that is continued by nothing ends its word all the same."""
    data = pieces_dataset(("a@@ b@@ c d", "e a@@ c"), ("c", "c"), ("a@@ X d", "c"), ("d a@@", "c"))
    path = write_links(tmp_path / "links", [[(0, 1), (1, 0)], [], [(0, 0)], [(1, 0)]])
    guided = GuidedAlignment(path, data, "the data")
    pieces = [sorted(map(tuple, guided[i].tolist())) for i in range(4)]
    assert pieces[0] == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (3, 0)]
    assert pieces[1:] == [[], [], [(1, 0)]]
    assert "1 pair goes without links: <unk>" in caplog.text
    # where the other side has pieces, <unk> of a side of words is one of these
    words, pairs = Dictionary(), pieces_dataset(("a@@ c d", "c"))
    target = [torch.tensor([words.unk(), words.add_symbol("c"), EOS])]
    source = pairs.src, pairs.src_sizes, pairs.src_dict
    data = LanguagePairDataset(*source, target, np.array([3]), words)
    write_links(path, [[(0, 0), (1, 1)]])
    assert GuidedAlignment(path, data, "the data")[0].tolist() == [[0, 0], [1, 0], [2, 1]]


@pytest.mark.parametrize(
    ("link", "pieces"),
    [((1, 1), ([1, 2, 3], [1, 2, 3])), ((2, 3), ([3], [3]))],  # of words, and of tokens
)
def test_links_count_the_words_of_the_text_where_its_tokens_show_them(link, pieces, tmp_path):
    data = pieces_dataset(("c b@@ d ￭.", "d l'￭ c ￭."))
    path = write_links(tmp_path / "links", [[link]])
    guided = GuidedAlignment(path, data, "the data", tokenizers=["reversible"] * 2)
    assert guided[0].tolist() == [[source, target] for source in pieces[0] for target in pieces[1]]


BAD = {
    "0-0\n": "has 1 line, but the data has 2 pairs",
    "0-0\n0-0 1p0\n": r"line 2: found '1p0'; valid in format pharaoh is links like 3-2",
    "0-0 2-0\n\n": r"line 1: found word 2 of the source in '2-0', .* has 2 words; .*: 0 to 1$",
    "0-0\n0-1\n": r"line 2: found word 1 of the target in '0-1', .* has 1 word; .*: 0 to 0$",
    b"\xff\n\n": "line 1: is not UTF-8",
    "0-0\n\n0-0\n": "has 3 lines, but the data has 2 pairs",
}


@pytest.mark.parametrize("content", BAD, ids=repr)
def test_a_bad_file_is_one_line(content, tmp_path):
    path = tmp_path / "links"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    data = pieces_dataset(("a@@ c d", "c d"), ("c", "c"))
    where = f"^--guided-alignment {re.escape(str(path))}"
    with pytest.raises(UserError, match=f"{where},? {BAD[content]}"):
        GuidedAlignment(path, data, "the data")


# --- the commands -------------------------------------------------------------------------------


def test_what_excludes_it_is_refused():
    model, without = random_model(), random_model(fixed_context=True)
    for given, named in (
        ((without, criterion_of(without)), "needs a model with attention"),
        ((model, CrossEntropyCriterion(task_of(model), False)), "CrossEntropyCriterion"),
    ):
        with pytest.raises(UserError, match=f"^--guided-alignment.*{named}"):
            check_guidance(*given, "--guided-alignment")
    both = {"guided_alignment": "links", "load_alignments": True}
    with pytest.raises(UserError, match="--load-alignments"):
        check_options(both, AlignmentHeatmapConfig)


def true_links(source, target):
    """The links of the language: an adjective follows its noun in the translation."""
    french = dict(pair.split(":") for pair in (*NOUNS, *ADJECTIVES))
    links, free = [], list(enumerate(target))
    for i, word in enumerate(source):
        j = next(j for j, other in free if other == french[word])
        free.remove((j, french[word]))
        links.append((i, j))
    return links


@pytest.mark.slow
def test_attention_learns_to_follow_the_links(small_corpus, tmp_path):
    """103 pairs are too few for the model to find them by itself."""
    links = [true_links(*pair) for pair in sides(small_corpus.text, "train")]
    guidance = f"--guided-alignment={write_links(tmp_path / 'links', links)}"
    training = train(
        small_corpus.data, tmp_path / "model", f"{LEARNING} {LAST_ONLY} --batch-size 10",
        "--optimizer adam --lr 0.02 --lr-scheduler polynomial_decay --total-num-update 440",
        f"--max-epoch 40 --guided-alignment-weight 1 {guidance}",
    ).ok()  # fmt: skip
    bits = [float(x) for x in re.findall(r"alignment_loss ([0-9.]+)", training.out)]
    assert bits[-1] < 0.3 < 1 < bits[0]
    model = load(tmp_path / "model/checkpoint_last.pt", small_corpus.data)
    pairs = sides(small_corpus.text, "test")
    text = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    found = [set(one.alignment.links()) for one in model.align(*text)]
    true = [set(true_links(*pair)) for pair in pairs]
    same = sum(len(one & other) for one, other in zip(found, true, strict=True))
    assert same >= 0.9 * sum(map(len, true))
