"""The quickstart's corpus: correct French, one French for each English, nothing occurs twice."""

import hashlib
import itertools
import os
import subprocess
import sys

import pytest
from commands import ROOT

sys.path.insert(0, str(ROOT / "recipes" / "quickstart"))

import toy_corpus
from grammar import (
    both,
    clause,
    name,
    noun_phrase,
    predicate,
    prepositional,
    pronoun,
    sentence,
    text,
)
from lexicon import LEXICON

VERB = {**LEXICON.intransitive, **LEXICON.ditransitive, **LEXICON.transitive}
FEW = {"train": 60, "valid": 10, "test": 10}
OF_SEED_4 = "974b3b1c9b7848f7a6f1287f54daf8a5fc169f9caf64f69a5693acde9e7f0c3d"  # and so many

NOUN_PHRASES = [
    # agreement and the adjective's place
    (("the", "car", "red"), {}, "the red car", "la voiture rouge"),
    (("the", "shoe", "white"), {"plural": True}, "the white shoes", "les chaussures blanches"),
    (("my", "horse", "new"), {"plural": True}, "my new horses", "mes nouveaux chevaux"),
    (("three", "newspaper", "italian"), {}, "three italian newspapers", "trois journaux italiens"),
    # before a vowel
    (("the", "man", "old"), {}, "the old man", "le vieil homme"),
    (("a", "hotel", "beautiful"), {}, "a beautiful hotel", "un bel hôtel"),
    (("this", "friend"), {}, "this friend", "cet ami"),
    (("my", "school"), {}, "my school", "mon école"),
    (("her", "farm", "huge"), {}, "her huge farm", "son énorme ferme"),
    # aspirated h: as before a consonant
    (("the", "hero", "old"), {}, "the old hero", "le vieux héros"),
    (("the", "axe"), {}, "the axe", "la hache"),
    # determiners
    (("some", "bread"), {}, "some bread", "du pain"),
    (("some", "soup"), {}, "some soup", "de la soupe"),
    (("some", "water"), {}, "some water", "de l' eau"),
    (("some", "dog", "small"), {"plural": True}, "some small dogs", "de petits chiens"),
    (("some", "dog", "huge"), {"plural": True}, "some huge dogs", "d' énormes chiens"),
    (("all the", "woman"), {}, "all the women", "toutes les femmes"),
    # possessors
    (("the", "dog", "black"), {"owner": noun_phrase("the", "man")}, "the man 's black dog",
     "le chien noir de l' homme"),
    (("the", "hat"), {"owner": name("anne")}, "anne 's hat", "le chapeau d' anne"),
    (("a", "bottle"), {"tail": text("of", "de") + noun_phrase("", "water").text},
     "a bottle of water", "une bouteille d' eau"),
]  # fmt: skip

PREPOSITIONS = [
    ("near", noun_phrase("the", "museum"), "near the museum", "près du musée"),
    ("next to", noun_phrase("the", "car", plural=True), "next to the cars", "à côté des voitures"),
    ("to", noun_phrase("the", "doctor"), "to the doctor", "au médecin"),
    ("to", noun_phrase("the", "child"), "to the child", "à l' enfant"),
    ("to", noun_phrase("the", "child", plural=True), "to the children", "aux enfants"),
    ("far from", noun_phrase("eleven", "lamp"), "far from eleven lamps", "loin de onze lampes"),
]  # fmt: skip

CLAUSES = [
    # negation, do-support
    (clause(pronoun("i"), VERB["love"], noun_phrase("the", "city"), negative=True),
     "i do not love the city", "je n' aime pas la ville"),
    (clause(pronoun("you"), VERB["see"], noun_phrase("the", "man"), question=True),
     "do you see the man", "est-ce que vous voyez l' homme"),
    (clause(noun_phrase("the", "man"), VERB["open"], noun_phrase("the", "door"), tense="past",
            negative=True), "the man did not open the door", "l' homme n' a pas ouvert la porte"),
    (clause(pronoun("they"), VERB["buy"], noun_phrase("a", "car"), negative=True),
     "they do not buy a car", "ils n' achètent pas de voiture"),
    (clause(pronoun("she"), VERB["eat"], noun_phrase("some", "egg", plural=True), adverb="never"),
     "she never eats any eggs", "elle ne mange jamais d' œufs"),
    # a preposition's object keeps its article behind a negation
    (clause(pronoun("she"), VERB["answer"], noun_phrase("a", "child"), negative=True),
     "she does not answer a child", "elle ne répond pas à un enfant"),
    # persons
    (clause(pronoun("we"), VERB["eat"], noun_phrase("the", "cake")), "we eat the cake",
     "nous mangeons le gâteau"),
    (clause(pronoun("i"), VERB["choose"], noun_phrase("the", "coat")), "i choose the coat",
     "je choisis le manteau"),
    (clause(both(noun_phrase("the", "man"), noun_phrase("the", "woman")), VERB["sleep"]),
     "the man and the woman sleep", "l' homme et la femme dorment"),
    # object pronouns
    (clause(pronoun("he"), VERB["love"], pronoun("i"), negative=True), "he does not love me",
     "il ne m' aime pas"),
    (clause(pronoun("she"), VERB["help"], pronoun("he"), tense="want"), "she wants to help him",
     "elle veut l' aider"),
    (clause(pronoun("you"), VERB["see"], pronoun("they"), tense="can", negative=True),
     "you cannot see them", "vous ne pouvez pas les voir"),
    # participles
    (clause(pronoun("we"), VERB["find"], pronoun("they"), tense="past"), "we found them",
     "nous les avons trouvés"),
    (clause(noun_phrase("the", "girl", plural=True), VERB["arrive"], tense="past"),
     "the girls arrived", "les filles sont arrivées"),
    # adverbs, modals
    (clause(pronoun("they"), VERB["wear"], noun_phrase("the", "hat"), adverb="often"),
     "they often wear the hat", "ils portent souvent le chapeau"),
    (clause(pronoun("he"), VERB["sleep"], tense="must", negative=True), "he must not sleep",
     "il ne doit pas dormir"),
    # two objects
    (clause(pronoun("he"), VERB["give"], noun_phrase("a", "book"),
            rest=prepositional("to", noun_phrase("the", "boy"))),
     "he gives a book to the boy", "il donne un livre au garçon"),
    # to be
    (clause(pronoun("she"), LEXICON.be, negative=True, rest=predicate("brave", pronoun("she"))),
     "she is not brave", "elle n' est pas courageuse"),
    (clause(pronoun("they"), LEXICON.be, tense="past", question=True,
            rest=predicate("happy", pronoun("they"))),
     "were they happy", "est-ce qu' ils étaient heureux"),
    # elision between clauses
    (text("if", "si") + clause(pronoun("they"), VERB["sing"]), "if they sing", "s' ils chantent"),
    (text("if", "si") + clause(pronoun("she"), VERB["sing"]), "if she sings", "si elle chante"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "english", "french"),
    [(noun_phrase(*what, **options).text, *both) for what, options, *both in NOUN_PHRASES]
    + [(prepositional(word, phrase), *both) for word, phrase, *both in PREPOSITIONS]
    + CLAUSES,
)
def test_words_in_both_languages(words, english, french):
    assert sentence(words) == (f"{english} .", f"{french} .")


@pytest.mark.parametrize(
    ("begin", "arguments", "options", "message"),
    [
        (predicate, ("happy", pronoun("we")), {}, "gender"),
        (clause, (pronoun("i"), VERB["arrive"]), {"tense": "past"}, "gender"),
        (clause, (pronoun("he"), VERB["see"], pronoun("you")), {"tense": "past"}, "gender"),
        (clause, (pronoun("he"), VERB["answer"], pronoun("she")), {}, "direct object"),
        (noun_phrase, ("a", "dog"), {"owner": name("paul")}, "owner"),
    ],
)
def test_what_french_would_leave_open_is_refused(begin, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        begin(*arguments, **options)


@pytest.fixture(scope="module")
def drawn():
    return list(itertools.islice(toy_corpus.sentences(seed=3), 20_000))


def test_one_english_has_one_french(drawn):
    french = {}
    for pair in drawn:
        assert french.setdefault(*pair) == pair.french, pair


def test_elision_is_never_missing(drawn):
    """Checked against a list of its own, so that a slip in the grammar's shows."""
    vowels = tuple("aeiouhâàéèêîôœ")
    aspirated = {"hache", "haches", "hibou", "hiboux", "héros", "huit", "onze"}
    for _, french in drawn:
        words = french.split()
        for word, following in itertools.pairwise(words):
            is_vowel = following.startswith(vowels) and following not in aspirated
            if word in ("le", "la", "de", "ne", "je", "me", "que", "du", "au"):
                assert not is_vowel, french
            if word in ("ma", "sa", "ce", "beau", "nouveau"):
                assert not is_vowel, french
            if word.endswith("'"):
                assert is_vowel or following == "y" or word == "s'", french
        pairs = set(itertools.pairwise(words))
        assert not {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")} & pairs, french


def test_lengths_and_words(drawn):
    for pair in drawn:
        for side in pair:
            assert 3 <= len(side.split()) <= 20, side
            assert side == side.lower() and side == " ".join(side.split()), side
        assert pair.english[-1] == pair.french[-1], pair


def test_lexicon_is_unambiguous():
    """A verb whose past equals its present would need two French tenses for one English form."""
    for verb in VERB.values():
        assert verb.base != verb.past or "state" in verb.notes, verb.base
    plurals = {noun.english_plural for noun in LEXICON.nouns.values()}
    assert len(plurals) == len(LEXICON.nouns)
    assert not plurals & set(LEXICON.nouns)


def test_splits_share_no_english_side():
    corpus = toy_corpus.split_corpus(**FEW, seed=5)
    assert {split: len(pairs) for split, pairs in corpus.items()} == FEW
    english = [pair.english for pairs in corpus.values() for pair in pairs]
    assert len(set(english)) == sum(FEW.values())
    assert corpus["valid"][:4] == toy_corpus.shown_sentences()


def test_as_a_program(tmp_path):
    """The same bytes as ever: whatever order Python gives its sets, and without any package."""
    sizes = [word for split, size in FEW.items() for word in (f"--{split}", str(size))]
    command = [sys.executable, "-S", toy_corpus.__file__, "--seed", "4", *sizes]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for hash_seed in ("1", "2"):
        out, environment["PYTHONHASHSEED"] = tmp_path / hash_seed, hash_seed
        subprocess.run([*command, "--out", out], check=True, env=environment)
        files = [out / f"{split}.{side}" for split in FEW for side in ("en", "fr")]
        assert set(out.iterdir()) == set(files)
        text = b"".join(file.read_bytes() for file in files)
        assert hashlib.sha256(text).hexdigest() == OF_SEED_4
        for file in files:
            assert file.read_bytes().count(b"\n") == FEW[file.stem]
