"""The words of words.toml, with the forms that follow from rules filled in."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))

# Persons are the index into every conjugation.
I, HE, WE, YOU, THEY = range(5)
_PERSONS = {"i": I, "he": HE, "we": WE, "you": YOU, "they": THEY}


@dataclass(frozen=True)
class Noun:
    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str
    group: str


@dataclass(frozen=True)
class Adjective:
    """An adjective, and the groups of nouns that it may describe."""

    english: str
    masculine: str
    feminine: str
    before_noun: bool
    groups: frozenset[str]


@dataclass(frozen=True)
class Verb:
    """A verb; words.toml says what its notes mean."""

    base: str
    third: str
    past: str
    particle: str
    infinitive: str
    present: tuple[str, ...]
    participle: str
    objects: frozenset[str]
    notes: frozenset[str]

    @property
    def auxiliary(self) -> str:
        return "être" if "être" in self.notes else "avoir"

    @property
    def joins_object(self) -> str:
        """The French preposition before the object, if there is one."""
        return next((word for word in ("à", "de", "dans") if word in self.notes), "")


class Pronoun(NamedTuple):
    french: str
    person: int
    gender: str
    english_object: str
    french_object: str


class Lexicon(NamedTuple):
    """Nouns and adjectives by their English, verbs by base and particle, such as "look for"."""

    nouns: dict[str, Noun]
    adjectives: dict[str, Adjective]
    transitive: dict[str, Verb]
    intransitive: dict[str, Verb]
    ditransitive: dict[str, Verb]
    reporting: dict[str, Verb]
    be: Verb


def read_lexicon() -> Lexicon:
    """Return the nouns, adjectives and verbs of words.toml, in its order."""
    nouns = [_noun(entry, group) for group, entries in WORDS["nouns"].items() for entry in entries]
    adjectives = [
        _adjective(english, *entry, before_noun=place == "before_noun")
        for place, table in WORDS["adjectives"].items()
        for english, entry in table.items()
    ]
    verbs = {}
    for kind in ("transitive", "intransitive", "ditransitive", "reporting"):
        read = [_verb(*entry) for entry in WORDS["verbs"][kind]]
        verbs[kind] = {f"{verb.base} {verb.particle}".strip(): verb for verb in read}
    return Lexicon(
        nouns={noun.english: noun for noun in nouns},
        adjectives={adjective.english: adjective for adjective in adjectives},
        be=_verb(*WORDS["verbs"]["be"]),
        **verbs,
    )


def _noun(entry: str, group: str) -> Noun:
    english, french, gender = entry.split()
    english, _, english_plural = english.partition("/")
    french, _, french_plural = french.partition("/")
    return Noun(
        english,
        english_plural or _english_plural(english),
        french,
        french_plural or plural_in_french(french),
        gender,
        group,
    )


def _adjective(english: str, french: str, describes: str, before_noun: bool) -> Adjective:
    masculine, *feminine = french.split()
    regular = masculine if masculine.endswith("e") else masculine + "e"
    return Adjective(english, masculine, *(feminine or [regular]), before_noun, _groups(describes))


def _verb(english: str, french: str, objects: str, notes: str) -> Verb:
    base, third, past, *particle = english.split()
    infinitive, *forms = french.split()
    if not forms:
        stem = infinitive.removesuffix("er")
        nous = stem + ("eons" if stem.endswith("g") else "ons")
        forms = [stem + "e", stem + "e", nous, stem + "ez", stem + "ent", stem + "é"]
    *present, participle = forms
    return Verb(
        base,
        third,
        past,
        *(particle or [""]),
        infinitive,
        tuple(present),
        participle,
        _groups(objects),
        frozenset(notes.split()),
    )


def _groups(text: str) -> frozenset[str]:
    """Return the groups of nouns that a text names, one by one or by a kind for several."""
    names = text.split()
    while kinds := [name for name in names if name in WORDS["kinds"]]:
        names = [name for name in names if name not in kinds]
        names += [name for kind in kinds for name in WORDS["kinds"][kind].split()]
    return frozenset(names)


def _english_plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def plural_in_french(word: str) -> str:
    """Return the plural of a noun, an adjective or a participle that follows the rule."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


def _forms(table: str) -> dict[str, tuple[str, ...]]:
    return {word: tuple(forms.split()) for word, forms in WORDS[table].items()}


LEXICON = read_lexicon()
CONJUGATIONS = _forms("conjugations")
MODALS = _forms("modals")
POSSESSIVES = _forms("possessives")
PRONOUNS = {
    english: Pronoun(french, _PERSONS[person], *rest)
    for english, (french, person, *rest) in WORDS["pronouns"].items()
}
NAMES = {name: gender for gender, names in WORDS["names"].items() for name in names.split()}
NUMBERS, ADVERBS, PREPOSITIONS = WORDS["numbers"], WORDS["adverbs"], WORDS["prepositions"]
TIMES, CONJUNCTIONS = WORDS["times"], WORDS["conjunctions"]
ASPIRATED = frozenset(WORDS["sounds"]["aspirated"].split())
BEFORE_VOWEL = WORDS["sounds"]["before_vowel"]
