"""The chain of fairseq's commands from text to translations: it learns, and loses no sentence."""

import re
import subprocess
import sys
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
    ROOT,
    TASK,
    Watch,
    assert_equal_tensors,
    generate,
    parameters_and_optimizer,
    preprocess,
    run,
    run_installed,
    sides,
    together,
    train,
    write_text,
)
from PIL import Image
from slow_cases import cases

pytest_plugins = ["trained"]


def test_it_learns_to_translate_and_where_to_look(learned):
    translated = generate(
        learned.corpus.data,
        learned.checkpoint,
        "--beam 5 --print-alignment hard --scoring sacrebleu",
    ).ok()
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
        assert names == [f"valid{i:04d}-update{60 * epoch:07d}.png" for i in range(4)]
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


def test_no_debugging_and_no_deprecations(learned, barely_trained):
    translated = generate(learned.corpus.data, learned.checkpoint, "--beam 1").ok()
    for finished in (learned.corpus.preprocessing, barely_trained.training, translated):
        assert "DEBUG" not in finished.out + finished.err
        assert not re.search(r"(?i)deprecat|FutureWarning|UserWarning", finished.out + finished.err)
    assert learned.training.err == ""  # the log goes to standard output


@pytest.mark.parametrize("count", cases([3, 6]))
def test_installed_commands_do_what_the_warm_ones_do(barely_trained, tmp_path, count):
    """Each command is started once as users start it; all other tests begin in a warm process."""
    text, data = barely_trained.corpus.text, barely_trained.corpus.data
    model = f"{TASK} --cpu --path={barely_trained.checkpoint}"
    folder = tmp_path / "installed"
    command_lines = (
        (
            "fairseq-preprocess",
            f"{TASK} -s en -t fr --trainpref={text}/train --validpref={text}/valid",
            f"--destdir={folder}/data",
        ),
        (
            "fairseq-train",
            data,
            f"{TASK} {QUIET} {MODEL} {PAPER} {LAST_ONLY} --max-update 2 --save-dir={folder}/model",
        ),
        ("fairseq-generate", data, f"{model} --beam 2 --print-alignment hard"),
        ("fairseq-interactive", data, f"{model} --beam 2"),
        ("fairseq-validate", data, f"{model} --batch-size 9"),
        (
            *("python", "-m", "fairseq_rnnsearch.commands.align", barely_trained.checkpoint),
            f"--data={data} --source={text}/test.en --target={text}/test.fr",
            f"--out={folder}/align --heatmap-format=pharaoh",
        ),
    )[:count]
    made = []
    for start in (run_installed, run):
        finished = [start(*line, stdin="red house bird\n").ok() for line in command_lines]
        said = [finished[2].lines("A"), *(done.lines("H") for done in finished[2:4])]
        files = {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.suffix in (".bin", ".idx", ".txt", ".pharaoh")
        }
        checkpoint = parameters_and_optimizer(folder / "model" / "checkpoint_last.pt")
        made.append((said, files, checkpoint))
        folder.rename(tmp_path / start.__name__)
    assert all(made[0][:2]) and made[0][:2] == made[1][:2]
    assert len(made[0][1]) == 2 * 2 * 2 + 2 + (count == 6)
    assert made[0][0][0].keys() == set(range(13))
    assert_equal_tensors(made[0][2], made[1][2])


SPLITS = (7, 100, 1014, 3003)


@pytest.fixture(scope="module")
def splits(tmp_path_factory, barely_trained):
    """Test sets of those sizes, as test, test1, test2 and test3; the training set has 1,014."""
    folder = tmp_path_factory.mktemp("splits")
    write_text(folder, train=1014, valid=7, **{f"test{size}": size for size in SPLITS})
    prefixes = ",".join(str(folder / f"test{size}") for size in SPLITS)
    words = barely_trained.corpus.data
    dictionaries = f"--srcdict={words}/dict.en.txt --tgtdict={words}/dict.fr.txt"
    preprocess(folder, folder / "data", f"--testpref={prefixes} {dictionaries}").ok()
    return folder / "data", [f"test{i or ''}" for i in range(len(SPLITS))]


def test_every_sentence_of_a_split_is_translated_once(splits, barely_trained):
    data, names = splits
    translated = together(
        *[
            lambda name=name: generate(
                data,
                barely_trained.checkpoint,
                f"--gen-subset {name} --beam 1 --max-len-b 2 --max-len-a 0 --batch-size 150",
            ).ok()
            for name in names
        ]
    )
    for size, finished in zip(SPLITS, translated, strict=True):
        hypotheses = finished.hypotheses()
        assert sorted(hypotheses) == list(range(size))
        assert all(len(found) == 1 for found in hypotheses.values())
        assert f"Translated {size:,} sentences" in finished.out + finished.err


def test_every_sentence_of_a_split_is_validated_once(splits, barely_trained, tmp_path):
    data, names = splits
    watch = Watch(tmp_path)
    run(
        "fairseq-validate",
        data,
        f"{TASK} {QUIET} --path={barely_trained.checkpoint} --valid-subset {','.join(names)}",
        f"--batch-size 150 {watch.options}",
        **watch.environment,
    ).ok()
    seen = Counter(i for batch in watch.batches("valid_step") for i in batch)
    assert seen == Counter(i for size in SPLITS for i in range(size))


@pytest.mark.parametrize("order", cases(["paper", "fairseq"]))
def test_every_pair_is_trained_on_once_an_epoch(splits, tmp_path, order):
    from fairseq_rnnsearch.paper.batch_order import paper_batches

    data, _ = splits
    watch = Watch(tmp_path)
    train(
        data,
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
        pairs = sides(data.parent, "train")
        lengths = [np.array([len(pair[side]) for pair in pairs]) for side in (0, 1)]
        expected = paper_batches(*lengths, batch_size=20, seed=3)
        assert [set(batch) for batch in first] == [set(batch.tolist()) for batch in expected]
        assert first == second


def test_longer_pairs_than_the_presets_are_not_trained_on(tmp_path):
    text = write_text(tmp_path, train=60, valid=5)
    watch = Watch(tmp_path / "watch")
    preprocess(text, tmp_path / "data").ok()
    train(
        tmp_path / "data",
        tmp_path / "model",
        f"{MODEL} {PAPER} {LAST_ONLY} --max-train-words 4 --max-epoch 1",
        watch.options,
        **watch.environment,
    ).ok()
    short = [i for i, (source, _) in enumerate(sides(text, "train")) if len(source) <= 4]
    assert 0 < len(short) < 60
    assert sorted(i for batch in watch.batches() for i in batch) == short
    assert sorted(i for batch in watch.batches("valid_step") for i in batch) == list(range(5))


def test_a_shortlist_is_so_many_words_and_no_made_up_ones(tmp_path):
    subprocess.run(
        [sys.executable, ROOT / "recipes" / "quickstart" / "toy_corpus.py", "--out", tmp_path]
        + "--train 60 --valid 5 --test 5".split(),
        check=True,
        capture_output=True,
    )
    preprocess(tmp_path, tmp_path / "data", "--nwordssrc 50 --nwordstgt 40").ok()
    counts = Counter((tmp_path / "train.en").read_text().split())
    for language, size in (("en", 50), ("fr", 40)):
        words = (tmp_path / "data" / f"dict.{language}.txt").read_text().splitlines()
        assert len(words) == size  # fairseq's four symbols are not in the file
        assert "madeupword" not in " ".join(words)
        if language == "en":
            kept = dict(word.rsplit(" ", 1) for word in words)
            assert {word: int(n) for word, n in kept.items()} == {w: counts[w] for w in kept}
            assert min(map(int, kept.values())) >= max(
                n for w, n in counts.items() if w not in kept
            )
