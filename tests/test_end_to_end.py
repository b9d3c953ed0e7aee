"""The chain of fairseq's commands from text to translations: it learns, and loses no sentence."""

import re
from collections import Counter

import numpy as np
import pytest
from commands import (
    ADJECTIVES,
    LAST_ONLY,
    MODEL,
    NOUNS,
    PAPER,
    QUIET,
    SHORTLIST,
    TASK,
    Watch,
    assert_equal_folders,
    preprocess,
    run,
    run_installed,
    sides,
    train,
    write_text,
)
from in_process import generate
from PIL import Image
from slow_cases import cases


@pytest.fixture(scope="module")
def translated(learned):
    options = "--beam 5 --print-alignment hard --scoring sacrebleu"
    return generate(learned.corpus.data, learned.checkpoint, options).ok()


def test_it_learns_to_translate_and_where_to_look(learned, translated):
    bleu = re.search(r"Generate test with beam=5: BLEU = ([\d.]+)", translated.out)
    assert float(bleu.group(1)) >= 90

    looked = right = 0
    meaning = dict(word.split(":") for word in NOUNS + ADJECTIVES)
    for number, (source, _) in enumerate(sides(learned.corpus.text, "test")):
        words = translated.hypotheses()[number][0].split()
        pairs = [
            tuple(map(int, pair.split("-"))) for pair in translated.lines("A")[number][0].split()
        ]
        assert [target for _, target in pairs] == list(range(len(words)))
        looked += len(pairs)
        right += sum(meaning[source[position]] == words[target] for position, target in pairs)
    assert right / looked >= 0.8


def test_every_validation_leaves_heatmaps(learned):
    from matplotlib.image import imread

    epochs = sorted((learned.folder / "heatmaps").glob("epoch*"))
    assert [folder.name for folder in epochs] == [
        f"epoch{e:03d}" for e in range(1, learned.epochs + 1)
    ]
    for epoch, folder in enumerate(epochs, start=1):
        names = sorted(file.name for file in folder.glob("*.png"))
        assert names == [f"sentence{i:04d}-update{60 * epoch:07d}.png" for i in range(1, 5)]
    picture = imread(epochs[-1] / names[0])
    assert min(picture.shape[:2]) > 50 and picture.min() < 0.2 and picture.max() == 1
    with Image.open(learned.folder / "heatmaps" / "emerging.gif") as animation:
        assert animation.n_frames == learned.epochs


def test_the_log_shows_the_papers_unit_and_the_attention(learned):
    valid = [
        line for line in learned.training.out.splitlines() if "valid on 'valid' subset" in line
    ]
    assert len(valid) == learned.epochs
    shown = [
        dict(re.findall(r"\| (\w+) ([\d.]+)", line))
        for line in valid  # "... | nll_loss 0.21 | ..."
    ]
    nats = [float(line["nats_per_sentence"]) for line in shown]
    assert nats[-1] < 0.2 * nats[0]
    words = np.mean([len(target) + 1 for _, target in sides(learned.corpus.text, "valid")])
    for line in shown:
        assert float(line["nll_loss"]) * words * np.log(2) == pytest.approx(
            float(line["nats_per_sentence"]), rel=0.02, abs=0.02
        )
        assert 0 <= float(line["attn_entropy"]) <= 3
        assert 1 / 8 <= float(line["attn_max"]) <= 1
        assert 0 <= float(line["attn_eos"]) <= 1


def test_no_debugging_and_no_deprecations(learned, barely_trained, translated):
    for finished in (learned.corpus.preprocessing, barely_trained.training, translated):
        assert "DEBUG" not in finished.out + finished.err
        assert not re.search(r"(?i)deprecat|FutureWarning|UserWarning", finished.out + finished.err)
    assert learned.training.err == ""  # the log goes to standard output


@pytest.mark.slow
def test_installed_commands_do_what_the_warm_ones_do(barely_trained, translated, tmp_path):
    """Three commands as users start them; all other tests begin in a warm process."""
    text, data = barely_trained.corpus.text, barely_trained.corpus.data
    made = tmp_path / "data"
    run_installed(
        *("fairseq-preprocess", f"{TASK} -s en -t fr --trainpref={text}/train"),
        *(f"--validpref={text}/valid --testpref={text}/test", f"--destdir={made}"),
    ).ok()
    files = sorted(path.name for path in data.iterdir() if path.suffix in (".bin", ".idx", ".txt"))
    assert len(files) == 3 * 2 * 2 + 2
    assert all((made / name).read_bytes() == (data / name).read_bytes() for name in files)
    folder = tmp_path / "model"
    options = f"{TASK} {QUIET} {MODEL} {PAPER} {LAST_ONLY} --max-update 2 --save-dir={folder}"
    run_installed("fairseq-train", made, options).ok()
    assert_equal_folders(folder, barely_trained.folder)
    model = f"--path={folder}/checkpoint_last.pt --beam 2 --print-alignment hard"
    found = run_installed("fairseq-generate", made, f"{TASK} {QUIET} {model}").ok()
    warm = generate(data, barely_trained.checkpoint, "--beam 2 --print-alignment hard").ok()
    assert found.lines("A").keys() == set(range(13))
    assert all(found.lines(kind) == warm.lines(kind) for kind in "HA")


@pytest.fixture(scope="module")
def splits(tmp_path_factory, barely_trained):
    """Test sets of 7 and 1,014 sentences, test and test1; the training set has 1,014."""
    folder = tmp_path_factory.mktemp("splits")
    write_text(folder, train=1014, valid=7, test7=7, test1014=1014)
    prefixes = ",".join(str(folder / f"test{size}") for size in (7, 1014))
    words = barely_trained.corpus.data
    dictionaries = f"--srcdict={words}/dict.en.txt --tgtdict={words}/dict.fr.txt"
    preprocess(folder, folder / "data", f"--testpref={prefixes} {dictionaries}").ok()
    return folder / "data"


def test_every_sentence_of_a_split_is_translated_once(splits, barely_trained):
    options = "--gen-subset test1 --beam 1 --max-len-b 2 --max-len-a 0 --batch-size 150"
    finished = generate(splits, barely_trained.checkpoint, options).ok()
    hypotheses = finished.hypotheses()
    assert sorted(hypotheses) == list(range(1014))
    assert all(len(found) == 1 for found in hypotheses.values())


def test_every_sentence_of_a_split_is_validated_once(splits, barely_trained, tmp_path):
    watch = Watch(tmp_path)
    run(
        "fairseq-validate",
        splits,
        f"{TASK} {QUIET} --path={barely_trained.checkpoint} --valid-subset test,test1",
        f"--batch-size 150 {watch.options}",
        **watch.environment,
    ).ok()
    seen = Counter(i for batch in watch.batches("valid_step") for i in batch)
    assert seen == Counter(i for size in (7, 1014) for i in range(size))


@pytest.mark.parametrize("order", cases(["paper", "fairseq"]))
def test_every_pair_is_trained_on_once_an_epoch(splits, tmp_path, order):
    from fairseq_rnnsearch.paper.batch_order import paper_batches

    watch = Watch(tmp_path)
    train(
        splits,
        tmp_path / "model",
        f"{MODEL} {PAPER} {LAST_ONLY} --batch-order {order} --batch-size 20 --seed 3 --max-epoch 2",
        watch.options,
        **watch.environment,
    ).ok()
    batches = watch.batches()
    first, second = batches[:51], batches[51:]  # 50 x 20 and one of 14
    for epoch in (first, second):
        assert sorted(i for batch in epoch for i in batch) == list(range(1014))
    valid = watch.batches("valid_step")
    assert sorted(i for batch in valid for i in batch) == sorted(2 * list(range(7)))
    if order == "fairseq":
        assert first != second
    else:
        pairs = sides(splits.parent, "train")
        lengths = [np.array([len(pair[side]) for pair in pairs]) for side in (0, 1)]
        expected = paper_batches(*lengths, batch_size=20, seed=3)
        assert [set(batch) for batch in first] == [set(batch.tolist()) for batch in expected]
        assert first == second


def test_a_shortlist_is_so_many_words_and_no_made_up_ones(learned_shortlist):
    text, data = learned_shortlist.corpus.text, learned_shortlist.corpus.data
    for language in ("en", "fr"):
        counts = Counter((text / f"train.{language}").read_text().split())
        lines = (data / f"dict.{language}.txt").read_text().splitlines()
        kept = {word: int(n) for word, n in (line.rsplit(" ", 1) for line in lines)}
        assert len(lines) == SHORTLIST  # fairseq's four symbols are not in the file
        assert kept == {word: counts[word] for word in kept}  # no made-up words
        assert min(kept.values()) >= max(n for word, n in counts.items() if word not in kept)
