"""Sentences to tokens and back; settings that cannot be used, each named in one line."""

import json
from importlib.metadata import version

import pytest
from in_process import fairseq
from subword_nmt.apply_bpe import BPE

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


LINES = {  # the text of each token, and the number of its word between spaces
    ("reversible", " Mr. l’homme\u00a0? "): (["Mr", ".", "l’", "homme", "\u00a0", "?"], "001112"),
    ("reversible", "İx ％￭ a@@"): (["İx", "％", "￭", "a", "@", "@"], "011222"),
    ("words", "(Mr. l’homme) ?"): (["(", "Mr", ".", "l’", "homme", ")", "?"], "0001112"),
    ("space", " Mr.\u00a0 x@@ "): (["Mr.", "x@@"], "01"),
    ("character", "né  \u3000a."): (["n", "é", "  \u3000", "a", "."], "00011"),
    ("character", "a ▁ b"): None,  # the character stands for a space
    ("moses", "a b"): None,
}


@pytest.mark.parametrize("case", LINES, ids=str)
def test_tokens_are_found_in_their_line(case):
    tokenizer, line = case
    text = PlainText("fr", tokenizer, lowercase=True).read_with(["％00a0"])
    found = text.line(line, text.tokens(line))
    if found is None or LINES[case] is None:
        assert found == LINES[case]
        return
    shown = [line[begin:end] for begin, end in found.spans]
    assert (shown, "".join(map(str, found.words))) == LINES[case]


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


def tokenized(folder, *options):
    tokenizing.main(["--out", str(folder / "out"), *map(str, options)])
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir()}


def test_one_start_tokenises_all_files_as_their_languages_are(tmp_path):
    texts = {  # with their tokens
        "train.en": ("It's me.", "It 's me ."),
        "test.zh": ("我在。", "我 在 。"),
        "test.fr": ("L'homme n'est pas là.", "L' homme n' est pas là ."),
    }
    for name, (text, _) in texts.items():
        (tmp_path / name).write_text(f"{text}\n\n{text}\n", encoding="utf-8")
    options = "--tokenizer", "moses", "--tokenizer-of", "zh=character"
    made = tokenized(tmp_path, *options, *(tmp_path / name for name in texts))
    for name, (_, tokens) in texts.items():
        assert made[name].decode() == f"{tokens}\n\n{tokens}\n"


def test_text_becomes_subwords_that_name_their_codes(tmp_path, monkeypatch):
    """From text to data folders that say how they were made, without a recipe."""
    lines = ["Low, lower and lowest!", "The lowest low-lands."] * 9
    for split in ("train", "valid"):
        for language, end in (("en", ""), ("fr", " oui")):
            text = "".join(f"{line}{end}\n" for line in lines)
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    out, data, test = (tmp_path / name for name in ("out", "data", "test"))
    tokenized(tmp_path, "--merges", "20", *tmp_path.glob("*.*"))
    prefixes = f"--trainpref {out}/train --validpref {out}/valid"
    fairseq("preprocess", f"-s en -t fr --destdir {data} {prefixes}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "preprocessing.json").write_text("a stranger's")
    words = f"--srcdict {data}/dict.en.txt --joined-dictionary"
    fairseq("preprocess", f"-s en -t fr --destdir {test} --testpref {out}/valid {words}")
    for folder in (out, data, test):
        made = PlainText.of(folder, "fr")
        assert (made.tokenizer, made.bpe_codes) == ("reversible", folder / "codes-en-fr")
    pieces = (out / "train.en").read_text().splitlines()[0].split()
    assert pieces == PlainText.of(data, "en").tokens(lines[0])
    assert any(piece.endswith("@@") for piece in pieces) and made.text(pieces) == lines[0]
    with pytest.raises(UserError, match=r"name a file train\.LANGUAGE"):
        tokenized(tmp_path, "--merges", "9", tmp_path / "valid.en")


def test_files_that_cannot_be_tokenised(tmp_path):
    (tmp_path / "b").mkdir()
    english, other, text = tmp_path / "x.en", tmp_path / "b" / "x.en", tmp_path / "x.txt"
    for path in (english, other, text):
        path.write_text("It's me.\n")
    for given, named in (
        ((english, other), r"two files are named x\.en"),
        ((text,), r"x\.txt: its suffix must be its language"),
        (("--tokenizer-of", "zh=moses", english), "--tokenizer-of zh="),
        (("--out", tmp_path, english), "is where the files are"),
    ):
        with pytest.raises(UserError, match=named):
            tokenized(tmp_path, *given)


def test_files_that_stay_are_of_the_same_tokens(tmp_path):
    train, valid, bad = (tmp_path / f"{name}.en" for name in ("train", "valid", "bad"))
    for path in (train, valid):
        path.write_text("It's me, the lowest.\n" * 9)
    bad.write_bytes(b"It's me.\n\xff\n")
    before = tokenized(tmp_path, train, valid)
    for wrong, named in (
        (("--tokenizer", "moses", train), "valid"),
        (("--merges", "9", train), "valid"),
        (("--lowercase", train, valid, bad), "bad"),
    ):
        with pytest.raises(UserError, match=rf"{named}\.en"):
            tokenized(tmp_path, *wrong)
        assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    after = tokenized(tmp_path, "--merges", "9", train, valid)
    assert after.keys() == before.keys() | {"codes-en"}
    with pytest.raises(UserError, match=r"valid\.en was"):
        tokenized(tmp_path, "--merges", "12", train)


def test_languages_that_get_subwords_one_by_one(tmp_path):
    """Each keeps its merges, and text that comes later must be split alike."""
    lines = {"en": "low lower lowest", "fr": "bas basse basses"}
    for language, line in lines.items():
        for split in ("train", "test"):
            (tmp_path / f"{split}.{language}").write_text(f"{line}\n" * 9)
        before = tokenized(tmp_path, "--merges", "9", tmp_path / f"train.{language}")
    for language, line in lines.items():
        made = before[f"train.{language}"].decode().splitlines()[0]
        assert made == " ".join(PlainText.of(tmp_path / "out", language).tokens(line))
    with pytest.raises(UserError, match=r"train\.en was"):
        tokenized(tmp_path, tmp_path / "test.en")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    tokenized(tmp_path, *(tmp_path / f"{split}.en" for split in ("train", "test")))
    assert PlainText.of(tmp_path / "out", "en").bpe_codes is None


def test_pieces_are_subword_nmts_and_are_merged_again(codes):
    plain, text = PlainText("en", bpe_codes=codes), "low lower lowest xyz"
    theirs = BPE(codes.open()).process_line(text)
    assert plain.tokens(text) == theirs.split() and "@@" in theirs
    assert plain.text(plain.tokens(text)) == text
    assert plain.text(["lo@@"]) == "lo"  # a translation may end in the middle of a word


def described(folder, settings):
    """Let a folder say how its English text was made."""
    text = settings if isinstance(settings, str) else json.dumps({"en": settings})
    (folder / "preprocessing.json").write_text(text)
    return folder, "en"


def test_a_folder_says_how_its_text_was_made(tmp_path, codes):
    settings = {"tokenizer": "moses", "lowercase": True, "bpe_codes": "codes"}
    given = described(tmp_path, settings)
    assert PlainText.of(*given).tokens("Low.") == ["low", "."]
    assert PlainText.of(*given, lowercase=False).tokens("LOW")[-1] == "W"
    assert PlainText.of(tmp_path, "fr").tokens("Low.") == ["Low."]  # nothing is said of French
    assert PlainText.of(tmp_path / "elsewhere", "en").tokens("Low.") == ["Low."]


@pytest.mark.parametrize(
    ("settings", "changes", "said"),
    [
        ({"tokenizer": "reversible"}, {"tokenizer": "moses"}, "tokenizer moses"),
        ({"tokenizer": "space", "lowercase": False}, {"lowercase": True}, "lowercase True"),
        ({"tokenizer": "moses", "sacremoses": "0.0.1"}, {}, "sacremoses 0.0.1"),
        ({"tokenizer": "moses", "sacremoses": version("sacremoses")}, {}, ""),
        ({"tokenizer": "reversible"}, {"tokenizer": "space"}, ""),  # for text that is split already
    ],
)
def test_text_that_is_made_in_another_way_than_the_training_s(
    tmp_path, caplog, settings, changes, said
):
    PlainText.of(*described(tmp_path, settings), **changes)
    assert [said in record.message for record in caplog.records] == [True] * bool(said)


BROKEN = {
    "{": "",
    '{"en": {"tokeniser": "moses"}}': "tokeniser",
    '{"en": {"lowercase": "yes"}}': "lowercase",
    '{"en": {"tokenizer": "magic"}}': "tokenizer",
}


@pytest.mark.parametrize("content", BROKEN)
def test_broken_settings_are_named(tmp_path, content):
    with pytest.raises(UserError, match=BROKEN[content]):
        PlainText.of(*described(tmp_path, content))
