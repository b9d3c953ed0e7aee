"""Sentences to tokens and back; settings that cannot be used, each named in one line."""

import gzip
import json
import subprocess
from importlib.metadata import version

import pytest
from commands import PACKAGE, ROOT, SCRIPTS, run, run_process

from fairseq_rnnsearch.commands import tokenizing
from fairseq_rnnsearch.errors import UserError
from fairseq_rnnsearch.text.plain_text import PlainText, sentences_in

# the first merges that subword-nmt learns of "low lower lowest"
CODES = "#version: 0.2\nl o\nlo w</w>\nlo w\nlow e\n"


@pytest.mark.parametrize(
    "sentences",
    [
        ["Two dogs run.", "A man is sleeping.", "Where is he?"],
        ['"Is it?"', "“No!”", "(Yes.)", "Good ...", "Fine"],
        ["Mr. Smith met J. R. Jones at 3 p.m. in St. Louis, e.g. yesterday: 3.5 km..."],
        ["Où est-il ?", "Élise dort .", "«Oui.»", "Non !"],
        ["Am 3. Mai 1850, im 19. Jahrhundert.", "Er war 12.", "Maine war es nicht."],
        ["你好。", "「再见！」", "谢谢？"],
        ["وہ آیا۔", "کہاں؟", "Փոխ։", "Այո։", "ሰላም።", "እንዴት።", "မင်္ဂလာပါ။", "ဟုတ်။"],
        [""],
    ],
)
def test_a_line_is_split_where_a_sentence_ends(sentences):
    separator = "" if "你好。" in sentences else " "
    assert sentences_in(separator.join(sentences)) == sentences


@pytest.fixture
def codes(tmp_path):
    (tmp_path / "codes").write_text(CODES)
    return tmp_path / "codes"


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("fr", "L'homme n'est-il pas là ?", "L' homme n' est-il pas là ?"),
        ("en", "He doesn't (really) care.", "He doesn 't ( really ) care ."),
        ("en", "a & b <c> | d", "a & b < c > | d"),
        ("fr", "", ""),
    ],
)
def test_moses_without_escapes(language, text, tokens):
    assert " ".join(PlainText(language, "moses").tokens(text)) == tokens


def test_moses_puts_together_what_it_took_apart():
    french = PlainText("fr", "moses")
    for text in ("L'homme n'est pas là.", "Il dit (oui), puis non !"):
        assert french.text(french.tokens(text)) == text


CHARACTERS = {  # a space is a token too; accents and vowel signs stay on their letters
    "zh": ("我用 iPhone 。", "我 用 ▁ i P h o n e ▁ 。"),
    "th": ("ที่นี่ ครับ", "ที่ นี่ ▁ ค รั บ"),
    "fr": ("e\u0301te\u0301", "e\u0301 t e\u0301"),
    "en": ("a@@ b", "a @ @ ▁ b"),
}


@pytest.mark.parametrize("language", CHARACTERS)
def test_text_by_characters_comes_back_as_it_was(tmp_path, language):
    text, tokens = CHARACTERS[language]
    settings = {language: {"tokenizer": "character", "lowercase": False, "bpe_codes": None}}
    (tmp_path / "preprocessing.json").write_text(json.dumps(settings))
    plain = PlainText.of(tmp_path, language)
    assert " ".join(plain.tokens(f" {text}  ")) == tokens
    assert plain.text(tokens.split()) == text
    assert plain.text(["▁", *tokens.split(), "▁", "▁"]) == text


def test_one_start_tokenises_all_files_as_their_languages_are(tmp_path):
    texts = {"train.en": "It's me.", "test.zh": "我在。", "test.fr": "L'homme n'est pas là."}
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n\n{text}\n", encoding="utf-8")
    names = [str(tmp_path / name) for name in texts]
    options = ["--tokenizer", "moses", "--tokenizer-of", "zh=character"]
    tokenizing.main(["--out", str(tmp_path / "out"), *options, *names])
    tokens = {
        "train.en": "It 's me .",
        "test.zh": "我 在 。",
        "test.fr": "L' homme n' est pas là .",
    }
    for name, line in tokens.items():
        made = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert made == f"{line}\n\n{line}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\ncaf\xe9\n", r"train\.en, line 2: is not UTF-8"),
        ("a".encode("utf-16"), r"train\.en, line 1: is not UTF-8"),
        (b"\xef\xbb\xbfa\n", r"train\.en starts with a UTF-8 byte order mark"),
        (gzip.compress(b"a\n", mtime=0), r"train\.en, line 1: is not UTF-8"),
    ],
)
def test_of_what_is_no_text_no_tokens_are_written(content, message, tmp_path):
    (tmp_path / "train.en").write_bytes(content)
    with pytest.raises(UserError, match=message):
        tokenizing.main(["--out", str(tmp_path / "out"), str(tmp_path / "train.en")])
    assert not [*(tmp_path / "out").iterdir()]


def test_text_becomes_subwords_that_name_their_codes(tmp_path, monkeypatch):
    """From text to data folders that say how they were made, without a recipe."""
    lines = ["Low, lower and lowest!", "The lowest low-lands."] * 9
    for split in ("train", "valid"):
        for language, end in (("en", ""), ("fr", " oui")):
            text = "".join(f"{line}{end}\n" for line in lines)
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    tokenizing.main(["--out", str(out), "--merges", "20", *map(str, tmp_path.glob("*.*"))])
    run(
        "fairseq-preprocess",
        f"--user-dir {PACKAGE} --task alignment_heatmap -s en -t fr --destdir {tmp_path}/data",
        f"--trainpref {out}/train --validpref {out}/valid",
    ).ok()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preprocessing.json").write_text("a stranger's")
    run(
        "fairseq-preprocess",
        f"--user-dir {PACKAGE} --task alignment_heatmap -s en -t fr --destdir {tmp_path}/test",
        f"--testpref {out}/valid --srcdict {tmp_path}/data/dict.en.txt --joined-dictionary",
    ).ok()
    for folder in (out, tmp_path / "data", tmp_path / "test"):
        made = PlainText.of(folder, "fr")
        assert (made.tokenizer, made.bpe_codes) == ("reversible", folder / "codes-en-fr")
    pieces = (out / "train.en").read_text().splitlines()[0].split()
    assert pieces == PlainText.of(tmp_path / "data", "en").tokens(lines[0])
    assert any(piece.endswith("@@") for piece in pieces) and made.text(pieces) == lines[0]
    with pytest.raises(UserError, match="is where the files are"):
        tokenizing.main(["--out", str(tmp_path), str(tmp_path / "train.en")])
    with pytest.raises(UserError, match=r"name a file train\.LANGUAGE"):
        tokenizing.main(["--out", str(out), "--merges", "9", str(tmp_path / "valid.en")])


def test_files_that_are_tokenised_one_by_one(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for language in ("en", "fr"):
            (tmp_path / folder / f"x.{language}").write_text("It's me.\n")
    out, english = tmp_path / "out", tmp_path / "a" / "x.en"
    for language in ("en", "fr"):
        tokenizing.main(["--out", str(out), str(tmp_path / "a" / f"x.{language}")])
    assert [PlainText.of(out, one).tokenizer for one in ("en", "fr")] == ["reversible"] * 2
    with pytest.raises(UserError, match=r"two files are named x\.en: --out .* has room for one"):
        tokenizing.main(["--out", str(out), str(english), str(tmp_path / "b" / "x.en")])
    with pytest.raises(FileExistsError, match=r"x\.en"):
        tokenizing.main(["--out", str(english), str(tmp_path / "b" / "x.en")])
    for name in ("x.txt", "x", "x.1"):
        (tmp_path / name).write_text("It's me.\n")
        with pytest.raises(UserError, match=rf"{name}: its suffix must be its language, .* x\.en"):
            tokenizing.main(["--out", str(out), str(tmp_path / name)])
    with pytest.raises(UserError, match=r"--tokenizer-of zh=\.\.\.: there is no text"):
        tokenizing.main(["--out", str(out), "--tokenizer-of", "zh=moses", str(english)])
    (tmp_path / "preprocessing.json").write_text("It's me.\n")
    with pytest.raises(UserError, match=r"preprocessing\.json: its suffix must be its language"):
        tokenizing.main(["--out", str(out), str(tmp_path / "preprocessing.json")])


def test_files_that_stay_are_of_the_same_tokens(tmp_path):
    for name in ("train.en", "valid.en"):
        (tmp_path / name).write_text("It's me, the lowest.\n" * 9)
    (tmp_path / "bad.en").write_bytes(b"It's me.\n\xff\n")
    train, valid, bad = (str(tmp_path / f"{name}.en") for name in ("train", "valid", "bad"))
    out = tmp_path / "out"

    def made():
        return {path.name: path.read_bytes() for path in out.iterdir()}

    tokenizing.main(["--out", str(out), train, valid])
    before = made()
    for wrong in (["--tokenizer", "moses", train], ["--merges", "9", train]):
        with pytest.raises(UserError, match=r"valid\.en was"):
            tokenizing.main(["--out", str(out), *wrong])
    with pytest.raises(UserError, match=r"bad\.en, line 2: is not UTF-8"):
        tokenizing.main(["--out", str(out), "--lowercase", train, valid, bad])
    assert made() == before
    tokenizing.main(["--out", str(out), "--merges", "9", train, valid])
    with pytest.raises(UserError, match=r"valid\.en was"):
        tokenizing.main(["--out", str(out), "--merges", "12", train])
    assert made().keys() == before.keys() | {"codes-en"}


def test_languages_that_get_subwords_one_by_one(tmp_path):
    """Each keeps its merges, and text that comes later must be split alike."""
    out, lines = tmp_path / "out", {"en": "low lower lowest", "fr": "bas basse basses"}
    for language, line in lines.items():
        for split in ("train", "test"):
            (tmp_path / f"{split}.{language}").write_text(f"{line}\n" * 9)
        merges = ["--merges", "9", str(tmp_path / f"train.{language}")]
        tokenizing.main(["--out", str(out), *merges])
    for language, line in lines.items():
        made = (out / f"train.{language}").read_text().splitlines()[0]
        assert made == " ".join(PlainText.of(out, language).tokens(line))
    before = [path.read_text() for path in sorted(out.iterdir())]
    with pytest.raises(UserError, match=r"train\.en was"):
        tokenizing.main(["--out", str(out), str(tmp_path / "test.en")])
    assert [path.read_text() for path in sorted(out.iterdir())] == before
    tokenizing.main(["--out", str(out), *(str(tmp_path / f"{x}.en") for x in ("train", "test"))])
    assert PlainText.of(out, "en").bpe_codes is None


def test_lower_case_comes_after_tokenising_and_is_not_undone():
    english = PlainText("en", "moses", lowercase=True)
    assert english.tokens("Mr. Smith.") == ["mr.", "smith", "."]
    assert english.text(["mr.", "smith", "."]) == "mr. smith."


def test_pieces_are_subword_nmts_and_are_merged_again(codes):
    plain = PlainText("en", bpe_codes=codes)
    text = "low lower lowest xyz"
    command = [SCRIPTS / "subword-nmt", "apply-bpe", "--codes", codes]
    ran = run_process(command, input=text, check=True)
    theirs = ran.stdout
    assert plain.tokens(text) == theirs.split()
    assert any(piece.endswith("@@") for piece in theirs.split())
    assert plain.text(plain.tokens(text)) == text
    assert plain.text(["lo@@"]) == "lo"  # a translation may end in the middle of a word


def test_a_folder_says_how_its_text_was_made(tmp_path, codes):
    settings = {"en": {"tokenizer": "moses", "lowercase": True, "bpe_codes": "codes"}}
    (tmp_path / "preprocessing.json").write_text(json.dumps(settings))
    assert PlainText.of(tmp_path, "en").tokens("Low.") == ["low", "."]
    assert PlainText.of(tmp_path, "en", lowercase=False).tokens("LOW")[-1] == "W"
    assert PlainText.of(tmp_path, "fr").tokens("Low.") == ["Low."]  # nothing is said of French
    assert PlainText.of(tmp_path / "elsewhere", "en").tokens("Low.") == ["Low."]


@pytest.mark.parametrize(
    ("tokenizer", "recorded", "is_named"),
    [("moses", version("sacremoses"), False), ("moses", "0.0.1", True), ("space", "0.0.1", False)],
)
def test_another_version_of_the_tokeniser_is_named(tmp_path, caplog, tokenizer, recorded, is_named):
    settings = {"en": {"tokenizer": tokenizer, "sacremoses": recorded}}
    (tmp_path / "preprocessing.json").write_text(json.dumps(settings))
    assert PlainText.of(tmp_path, "en").tokens("Low .") == ["Low", "."]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * is_named
    assert not is_named or "sacremoses 0.0.1" in caplog.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokenizer": "moses"}, "tokenizer moses: the en text of the training had tokenizer rev"),
        ({"lowercase": True}, "lowercase True: the en text of the training had lowercase False"),
        ({"tokenizer": "space"}, ""),  # for text that is split already
        ({"tokenizer": "reversible", "lowercase": False, "bpe_codes": None}, ""),
    ],
)
def test_text_that_is_made_in_another_way_than_the_training_s(tmp_path, caplog, changes, said):
    settings = {"en": {"tokenizer": "reversible", "lowercase": False}}
    (tmp_path / "preprocessing.json").write_text(json.dumps(settings))
    PlainText.of(tmp_path, "en", **changes)
    assert [record.message.startswith(said) for record in caplog.records] == [True] * bool(said)
    caplog.clear()
    with pytest.raises(UserError, match="tokenizer 'foo': must be"):
        PlainText.of(tmp_path, "en", **changes | {"tokenizer": "foo"})
    assert not caplog.records


def test_recipes_record_the_version_of_the_tokeniser(tmp_path):
    script = f"source '{ROOT}/recipes/steps.sh'; describe_preprocessing en fr:c"
    settings = {"TOKENIZER": "moses", "LOWERCASE": "1", "PARTIAL": str(tmp_path)}
    environment = {"PATH": f"{SCRIPTS}:/usr/bin:/bin", **settings}
    subprocess.run(["bash", "-c", script], env=environment, check=True)
    common = {"tokenizer": "moses", "sacremoses": version("sacremoses"), "lowercase": True}
    assert json.loads((tmp_path / "preprocessing.json").read_text()) == {
        "en": {**common, "bpe_codes": None},
        "fr": {**common, "bpe_codes": "c"},
    }


BROKEN = {
    "no JSON": ("{", "cannot be read"),
    "an unknown name": (
        '{"en": {"tokeniser": "moses"}}',
        "tokeniser cannot be 'moses'; ex",
    ),
    "a wrong type": ('{"en": {"lowercase": "yes"}}', "lowercase cannot be 'yes'"),
    "an unknown tokenizer": ('{"en": {"tokenizer": "magic"}}', "tokenizer 'magic': must"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_settings_are_named_in_one_line(tmp_path, name):
    content, message = BROKEN[name]
    (tmp_path / "preprocessing.json").write_text(content)
    with pytest.raises(UserError) as caught:
        PlainText.of(tmp_path, "en")
    assert message in str(caught.value) and "\n" not in str(caught.value)
