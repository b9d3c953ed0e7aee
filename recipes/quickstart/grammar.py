"""The grammar of the quickstart's corpus: each builder makes both languages at once.

`noun_phrase`, `clause`, `prepositional` and `predicate` make the parts of a sentence, `sentence`
joins them: it chooses a or an, and elides in French. A ValueError refuses what French would leave
open, such as the gender of "we" that a participle has to agree with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lexicon import (
    ADVERBS,
    ASPIRATED,
    BEFORE_VOWEL,
    CONJUGATIONS,
    HE,
    LEXICON,
    MODALS,
    NAMES,
    NUMBERS,
    POSSESSIVES,
    PREPOSITIONS,
    PRONOUNS,
    THEY,
    WE,
    Adjective,
    Verb,
    plural_in_french,
)

ENGLISH_BE = {"present": ("am", "is", "are", "are", "are"), "past": ("was", "was", *["were"] * 3)}

VOWELS = frozenset("aàâeéèêiîoôuûyhœæ")
ELIDED = {word: word[:-1] + "'" for word in ("le", "la", "de", "ne", "je", "me", "que", "si")}
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}


class Sentence(NamedTuple):
    english: str
    french: str


@dataclass(frozen=True)
class Text:
    """Words that say the same in both languages."""

    english: tuple[str, ...] = ()
    french: tuple[str, ...] = ()

    def __add__(self, other: "Text") -> "Text":
        return Text(self.english + other.english, self.french + other.french)


def text(english: str, french: str) -> Text:
    return Text(tuple(english.split()), tuple(french.split()))


@dataclass(frozen=True)
class Phrase:
    """What can be a subject or an object.

    Attributes:
        text: its form as a subject, or as the object of an affirmed verb.
        negated: its form as the direct object of a negated verb: "a dog" is then "de chien".
        person: the index into conjugations.
        gender: "m" or "f"; "" for i, you and we, which no adjective describes.
        clitic: the form of a pronoun before the verb.
    """

    text: Text
    negated: Text
    person: int
    gender: str
    clitic: Text = Text()

    @property
    def plural(self) -> bool:
        return self.person in (WE, THEY)


def pronoun(english: str) -> Phrase:
    entry = PRONOUNS[english]
    subject = text(english, entry.french)
    clitic = text(entry.english_object, entry.french_object)
    return Phrase(subject, subject, entry.person, entry.gender, clitic)


def name(english: str) -> Phrase:
    return Phrase(text(english, english), text(english, english), HE, NAMES[english])


def both(first: Phrase, second: Phrase) -> Phrase:
    """Join two phrases by "and"; the whole is masculine if either is."""
    gender = "f" if first.gender == second.gender == "f" else "m"
    joined = first.text + text("and", "et") + second.text
    return Phrase(joined, joined, THEY, gender)


def noun_phrase(
    determiner: str,
    noun: str,
    *adjectives: str,
    plural: bool = False,
    owner: Phrase | None = None,
    tail: Text | None = None,
) -> Phrase:
    """Make a noun phrase with all that belongs to the noun.

    Args:
        determiner: the, a, some, this, every, many, several, all the, a possessive, a number,
            or "" as before the water of "a bottle of water".
        adjectives: the English ones in their order; in French most go behind the noun.
        plural: whether "the", "some", "this" or a possessive is plural; the others imply it.
        owner: whose it is, as in "the man 's dog"; the determiner must then be "the".
        tail: what follows the noun, such as a relative clause.
    """
    if owner and determiner != "the":
        raise ValueError(f"determiner {determiner!r} with an owner: must be 'the'")
    entry = LEXICON.nouns[noun]
    described = [LEXICON.adjectives[adjective] for adjective in adjectives]
    plural = plural or determiner in (*NUMBERS, "many", "several", "all the")
    head = entry.french_plural if plural else entry.french
    before = [adjective for adjective in described if adjective.before_noun]
    after = [
        agree(adjective, entry.gender, plural)
        for adjective in described
        if not adjective.before_noun
    ]
    french: list[str] = []
    for adjective in reversed(before):
        following = (french or [head])[0]
        french.insert(0, agree(adjective, entry.gender, plural, following))
    has_adjective_before = bool(french)
    french += [head, *after]

    english = [*adjectives, entry.english_plural if plural else entry.english]
    english_determiner, french_determiner = _determiner(
        determiner, entry.gender, plural, french[0], has_adjective_before
    )
    if owner:
        english_determiner, of_owner = _owner(owner)
        french += of_owner
    rest = Text(tuple(english), tuple(french)) + (tail or Text())
    phrase = text(english_determiner, french_determiner) + rest
    negated = phrase
    if determiner in ("a", "some"):
        negated = text("a" if determiner == "a" else "any", "de") + rest
    return Phrase(phrase, negated, THEY if plural else HE, entry.gender)


def _owner(owner: Phrase) -> tuple[str, list[str]]:
    if owner.person != HE:
        raise ValueError("an owner must be singular")
    return " ".join((*owner.text.english, "'s")), list(prepositional("of", owner).french)


def _determiner(
    determiner: str, gender: str, plural: bool, following: str, has_adjective_before: bool
) -> tuple[str, str]:
    """Return the English and the French determiner before the French word ``following``."""
    feminine = gender == "f"
    form = 2 if plural else int(feminine)
    if determiner in POSSESSIVES:
        # As in mon amie, the masculine stands before a vowel.
        form = 0 if form == 1 and starts_with_vowel(following) else form
        return determiner, POSSESSIVES[determiner][form]
    if determiner in NUMBERS:
        return determiner, NUMBERS[determiner]
    if determiner == "this":
        this = "ce" if not starts_with_vowel(following) else BEFORE_VOWEL["ce"]
        return "these" if plural else "this", (this, "cette", "ces")[form]
    if determiner == "some":
        # It is du pain, de la soupe, de l' eau; des chiens, but de petits chiens.
        partitive = ("de le", "de la", "de" if has_adjective_before else "des")[form]
        contracts = form == 0 and not starts_with_vowel(following)
        return determiner, "du" if contracts else partitive
    if determiner == "all the":
        return determiner, "toutes les" if feminine else "tous les"
    french = {
        "": "",
        "the": ("le", "la", "les")[form],
        "a": "une" if feminine else "un",
        "every": "chaque",
        "many": "beaucoup de",
        "several": "plusieurs",
    }
    return determiner, french[determiner]


def agree(adjective: Adjective, gender: str, plural: bool, following: str = "") -> str:
    """Return the French form of an adjective.

    Args:
        following: the next French word, for an adjective that stands before its noun.
    """
    form = adjective.feminine if gender == "f" else adjective.masculine
    if plural:
        return plural_in_french(form)
    if gender == "m" and following and starts_with_vowel(following):
        return BEFORE_VOWEL.get(form, form)
    return form


def prepositional(preposition: str, phrase: Phrase) -> Text:
    """Put a preposition before a phrase: "near the museum" is "près du musée"."""
    french = _joined(PREPOSITIONS[preposition].split(), phrase.text.french)
    return Text((*preposition.split(), *phrase.text.english), french)


def _joined(preposition: Sequence[str], phrase: tuple[str, ...]) -> tuple[str, ...]:
    """Contract a preposition and an article: près du musée, but près de l' homme."""
    *start, last = preposition
    article, *rest = phrase
    elides = article == "le" and starts_with_vowel(rest[0])
    if (last, article) in CONTRACTED and not elides:
        return (*start, CONTRACTED[last, article], *rest)
    return (*start, last, *phrase)


def clause(
    subject: Phrase,
    verb: Verb,
    object: Phrase | None = None,
    *,
    tense: str = "present",
    negative: bool = False,
    adverb: str = "",
    question: bool = False,
    rest: Text | None = None,
) -> Text:
    """Make a clause of a subject, a verb, an object and what follows.

    Args:
        object: None as in "the book that he reads"; a pronoun stands before the French verb.
        tense: present, past (the passé composé, and of "to be" the imparfait) or one of MODALS.
        negative: whether the verb is negated, by not and by ne ... pas.
        adverb: one of ADVERBS, or "".
        question: whether it asks, by do before the subject and by est-ce que.
        rest: what follows the object.
    """
    clitic = object.clitic if object else Text()
    if clitic.french and verb.joins_object:
        raise ValueError(f"a pronoun after {verb.base!r}: needs a verb with a direct object")
    auxiliary, group = _english_group(subject.person, verb, tense, negative, adverb, question)
    french = _french_group(subject, verb, object, tense, negative, adverb)
    english_object = french_object = ()
    if clitic.english:
        english_object = clitic.english
    elif object:
        negated = (negative or adverb == "never") and not verb.joins_object
        shown = object.negated if negated else object.text
        english_object, french_object = shown.english, shown.french
        if verb.joins_object:
            french_object = _joined([verb.joins_object], french_object)
    particle = (verb.particle,) if verb.particle else ()
    english_subject = subject.text.english
    first, second = (auxiliary, english_subject) if question else (english_subject, auxiliary)
    whole = Text(
        (*first, *second, *group, *particle, *english_object),
        (*(("est-ce", "que") if question else ()), *subject.text.french, *french, *french_object),
    )
    return whole + (rest or Text())


def _english_group(
    person: int, verb: Verb, tense: str, negative: bool, adverb: str, question: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a question moves before the subject, if anything, and the rest of the verb."""
    is_third = person == HE
    adverbs = [adverb] if adverb else []
    if verb.base == "be" and tense in ENGLISH_BE:
        auxiliary, rest = ENGLISH_BE[tense][person], adverbs
    elif tense == "going":
        auxiliary, rest = ENGLISH_BE["present"][person], [*adverbs, "going", "to", verb.base]
    elif tense in ("can", "must"):
        auxiliary, rest = tense, [*adverbs, verb.base]
    else:
        base, third, past = verb.base, verb.third, verb.past
        tail = []
        if tense == "want":
            base, third, tail = "want", "wants", ["to", verb.base]
        if negative or question:
            auxiliary = "did" if tense == "past" else "does" if is_third else "do"
            rest = [*adverbs, base, *tail]
        else:
            finite = past if tense == "past" else third if is_third else base
            return (), (*adverbs, finite, *tail)
    if negative and auxiliary == "can":
        return ("cannot",), tuple(rest)
    return (auxiliary,), (*(["not"] if negative else []), *rest)


def _french_group(
    subject: Phrase, verb: Verb, object: Phrase | None, tense: str, negative: bool, adverb: str
) -> tuple[str, ...]:
    """Put negation, object pronoun, finite verb, adverb, participle or infinitive in order."""
    clitic = object.clitic.french if object else ()
    before_finite, before_infinitive = clitic, ()
    nonfinite: list[str] = []
    if tense in MODALS:
        finite, nonfinite = MODALS[tense][subject.person], [verb.infinitive]
        before_finite, before_infinitive = (), clitic
    elif tense == "past" and verb.base == "be":
        finite = CONJUGATIONS["était"][subject.person]
    elif tense == "past":
        finite = CONJUGATIONS[verb.auxiliary][subject.person]
        nonfinite = [_participle(verb, subject, object if clitic else None)]
    else:
        finite = verb.present[subject.person]
    negation = ["jamais"] if adverb == "never" else ["pas"] if negative else []
    adverbs = [ADVERBS[adverb]] if adverb and adverb != "never" else []
    return (
        *(["ne"] if negation else []),
        *before_finite,
        finite,
        *negation,
        *adverbs,
        *before_infinitive,
        *nonfinite,
        *(["besoin"] if "besoin" in verb.notes else []),
    )


def _participle(verb: Verb, subject: Phrase, clitic: Phrase | None) -> str:
    """Return the participle: it agrees with the subject after être, after avoir with a pronoun.

    Args:
        clitic: the object, if it is a pronoun and so stands before the verb.
    """
    model = subject if verb.auxiliary == "être" else clitic
    if model is None:
        return verb.participle
    if not model.gender:
        raise ValueError(f"{model.text.english[0]!r} has no gender for a participle to agree with")
    feminine = verb.participle + "e" * (model.gender == "f")
    return plural_in_french(feminine) if model.plural else feminine


def predicate(adjective: str, subject: Phrase) -> Text:
    """Return the adjective of a sentence such as "the men are happy"."""
    if not subject.gender:
        raise ValueError(f"{subject.text.english[0]!r} has no gender to agree with")
    french = agree(LEXICON.adjectives[adjective], subject.gender, subject.plural)
    return text(adjective, french)


def sentence(words: Text, mark: str = ".") -> Sentence:
    """Make a sentence that ends with ``mark``: choose a or an, elide what has to be."""
    english = [
        "an" if word == "a" and _takes_an(following) else word
        for word, following in zip(words.english, (*words.english[1:], mark), strict=True)
    ]
    french = [
        ELIDED[word] if _elides(word, following) else word
        for word, following in zip(words.french, (*words.french[1:], mark), strict=True)
    ]
    return Sentence(" ".join([*english, mark]), " ".join([*french, mark]))


def _takes_an(following: str) -> bool:
    return (following[0] in "aeiou" or following.startswith("hon")) and following != "useful"


def _elides(word: str, following: str) -> bool:
    if word == "si":
        return following in ("il", "ils")
    return word in ELIDED and starts_with_vowel(following)


def starts_with_vowel(french: str) -> bool:
    """Return whether it begins with a vowel or a mute h, before which le, la, de, ... elide."""
    return french[0] in VOWELS and french not in ASPIRATED
