"""Draws the sentences of the quickstart's corpus; their parts come from grammar.py."""

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from grammar import (
    Phrase,
    Sentence,
    Text,
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
from lexicon import (
    ADVERBS,
    CONJUNCTIONS,
    HE,
    LEXICON,
    MODALS,
    NAMES,
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    THEY,
    TIMES,
    WE,
    YOU,
    I,
    Noun,
    Verb,
)

T = TypeVar("T")

SHORTEST, LONGEST = 3, 20  # words of a side, its mark counted

UNCOUNTABLE = {"mass", "drink"}
# What occurs more than once is drawn more often.
PLACE_PREPOSITIONS = ("in", "in", "in", "near", "behind", "in front of", "far from", "next to")
FURNITURE_PREPOSITIONS = ("on", "on", "under", "behind", "next to", "near")
TENSES = {"present": 10, "past": 4, "can": 2, "must": 1, "want": 2, "going": 2}  # and how often


class Sampler:
    """Draws sentences; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def sentence(self) -> Sentence:
        """Draw one sentence, of any length."""
        kinds = {
            self._statement: 46,
            self._question: 14,
            self._description: 14,
            self._location: 9,
            self._compound: 17,
        }
        return self._weighted(kinds)()

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _choice(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def _weighted(self, options: dict[T, int]) -> T:
        return self._random.choices(list(options), list(options.values()))[0]

    # The kinds of sentence.

    def _statement(self) -> Sentence:
        return sentence(self._clause())

    def _question(self) -> Sentence:
        kind = self._choice(("yes", "yes", "yes", "why", "what", "who", "where"))
        if kind == "yes":
            return sentence(self._clause(question=True), "?")
        if kind == "why":
            word = self._choice((("why", "pourquoi"), ("when", "quand")))
            return sentence(text(*word) + self._clause(question=True, timed=False), "?")
        if kind == "what":
            things = {"thing", "food", "reading", "clothes", "drink"}
            direct = [verb for verb in LEXICON.transitive.values() if not verb.joins_object]
            verb = self._choice([verb for verb in direct if verb.objects & things])
            subject = self._subject(verb)
            asked = clause(subject, verb, question=True, tense=self._tense(verb, subject))
            return sentence(text("what", "que") + asked, "?")
        if kind == "who":
            who = Phrase(text("who", "qui"), text("who", "qui"), HE, "m")
            return sentence(self._clause(subject=who), "?")
        subject = self._noun_phrase({"person", "animal", "thing", "vehicle", "clothes"}, "simple")
        verb = ("are", "sont") if subject.plural else ("is", "est")
        return sentence(text("where", "où") + text(*verb) + subject.text, "?")

    def _description(self) -> Sentence:
        """Draw a sentence such as "the man is not happy"."""
        if self._chance(0.25):
            subject = pronoun(self._choice(("he", "she", "they")))
            group = "person"
        else:
            nouns = [noun for noun in LEXICON.nouns.values() if noun.group != "fixture"]
            noun = self._choice(nouns)
            group = noun.group
            subject = self._noun_phrase({group}, "simple", described=0.25)
        fitting = [
            adjective.english
            for adjective in LEXICON.adjectives.values()
            if group in adjective.groups and adjective.english not in subject.text.english
        ]
        question = self._chance(0.2)
        return sentence(
            self._being(subject, predicate(self._choice(fitting), subject), question),
            "?" if question else ".",
        )

    def _location(self) -> Sentence:
        """Draw "the dog is under the table" or "there is no dog under the table"."""
        if self._chance(0.4):
            groups, where = {"thing", "reading", "animal", "clothes", "food"}, self._furniture()
        else:
            groups, where = {"person", "animal", "vehicle", "furniture"}, self._place()
        if self._chance(0.4):
            subject = pronoun(self._choice(list(PRONOUNS)))
            if "person" not in groups or self._chance(0.6):
                subject = self._noun_phrase(groups, "subject")
            return sentence(self._being(subject, where))
        if self._chance(0.3):
            bare = self._noun_phrase(groups, "bare")
            there = text(f"there {'are' if bare.plural else 'is'} no", "il ne y a pas de")
            return sentence(there + bare.text + where)
        phrase = self._noun_phrase(groups, "existing")
        there = text("there " + ("are" if phrase.plural else "is"), "il y a")
        return sentence(there + phrase.text + where)

    def _compound(self) -> Sentence:
        if self._chance(0.4):
            verb = self._choice(list(LEXICON.reporting.values()))
            reported = text("that", "que") + self._clause(short=True)
            return sentence(clause(self._subject(verb), verb, rest=reported))
        joined = self._choice(list(CONJUNCTIONS))
        tense = "present" if joined in ("when", "if") else ""
        first = self._clause(short=True, timed=False, tense=tense)
        second = self._clause(short=True, timed=False, tense=tense)
        return sentence(first + text(joined, CONJUNCTIONS[joined]) + second)

    # Clauses.

    def _clause(
        self,
        subject: Phrase | None = None,
        question: bool = False,
        timed: bool = True,
        short: bool = False,
        tense: str = "",
    ) -> Text:
        kind = self._weighted({"transitive": 7, "intransitive": 2, "ditransitive": 2})
        verb = self._choice(list(getattr(LEXICON, kind).values()))
        if subject is None:
            subject = self._subject(verb, plain=short)
        tense = tense or self._tense(verb, subject)
        rest = Text()
        target = None
        if kind != "intransitive":
            clear = {"m", "f"} if tense == "past" else {"m", "f", ""}
            target = self._object(verb, subject, clear, plain=short)
        if kind == "ditransitive":
            rest += prepositional("to", self._noun_phrase({"person"}, "simple", plain=True))
        elif "place" not in verb.objects and not short:
            if kind == "intransitive" and self._chance(0.25):
                rest += prepositional("with", self._noun_phrase({"person"}, "simple"))
            if self._chance(0.45 if kind == "intransitive" else 0.2):
                rest += self._place()
        if timed and not short and self._chance(0.2):
            rest += text(*self._choice(TIMES["any"] + TIMES.get(tense, [])))
        negative = not question and self._chance(0.25)
        return clause(
            subject,
            verb,
            target,
            tense=tense,
            negative=negative,
            adverb=self._adverb(tense, negative, question),
            question=question,
            rest=rest,
        )

    def _being(self, subject: Phrase, rest: Text, question: bool = False) -> Text:
        negative = not question and self._chance(0.25)
        tense = "past" if self._chance(0.3) else "present"
        adverb = self._adverb(tense, negative, question)
        return clause(
            subject, LEXICON.be, tense=tense, negative=negative, adverb=adverb,
            question=question, rest=rest,
        )  # fmt: skip

    def _adverb(self, tense: str, negative: bool, question: bool) -> str:
        if tense in MODALS or not self._chance(0.15):
            return ""
        if negative:
            return self._choice(("often", "always"))
        return self._choice(("often", "always") if question else list(ADVERBS))

    def _tense(self, verb: Verb, subject: Phrase) -> str:
        tense = self._weighted(TENSES)
        lacks_gender = verb.auxiliary == "être" and not subject.gender
        unfit = tense == "past" and ("state" in verb.notes or lacks_gender)
        # "is going to go" would be clumsy.
        return "present" if unfit or (tense == "going" and verb.base == "go") else tense

    # Phrases.

    def _subject(self, verb: Verb, plain: bool = False) -> Phrase:
        if self._chance(0.4):
            return pronoun(self._choice(list(PRONOUNS)))
        if self._chance(0.12):
            return name(self._choice(list(NAMES)))
        groups = {"animal"} if "animal" in verb.notes and self._chance(0.35) else {"person"}
        subject = self._noun_phrase(groups, "subject", plain=plain)
        if not plain and self._chance(0.08):
            subject = both(subject, self._noun_phrase(groups, "subject", plain=True))
        return subject

    def _object(self, verb: Verb, subject: Phrase, genders: set[str], plain: bool) -> Phrase:
        if "person" in verb.objects and not verb.joins_object and self._chance(0.35):
            reflexive = {I: (I, WE), WE: (I, WE), YOU: (YOU,)}.get(subject.person, ())
            candidates = [pronoun(english) for english in PRONOUNS]
            return self._choice(
                [
                    candidate
                    for candidate in candidates
                    if candidate.person not in reflexive and candidate.gender in genders
                ]
            )
        if "person" in verb.objects and self._chance(0.08):
            return name(self._choice(list(NAMES)))
        role = "simple" if verb.joins_object else "object"
        role = "definite" if "definite" in verb.notes else role
        return self._noun_phrase(verb.objects, role, plain=plain)

    def _place(self) -> Text:
        where = self._noun_phrase({"place"}, "simple", plain=True, described=0.35)
        return prepositional(self._choice(PLACE_PREPOSITIONS), where)

    def _furniture(self) -> Text:
        where = self._noun_phrase({"furniture"}, "simple", plain=True, described=0.35)
        return prepositional(self._choice(FURNITURE_PREPOSITIONS), where)

    def _noun_phrase(
        self, groups: set[str] | frozenset[str], role: str, plain: bool = False,
        described: float = 0.5,
    ) -> Phrase:  # fmt: skip
        """Draw a noun of one of the groups, with its determiner and what describes it.

        Args:
            role: decides which determiners may be drawn: "subject", "object", "simple" (such as
                behind a preposition), "definite", "existing" (behind "there is") or "bare" (behind
                "there is no").
            plain: the noun gets no owner and no relative clause.
            described: the probability of an adjective.
        """
        noun = self._choice([noun for noun in LEXICON.nouns.values() if noun.group in groups])
        countable = noun.group not in UNCOUNTABLE
        determiner = self._determiner(role, countable)
        plural = countable and determiner not in ("a", "every") and self._chance(0.3)
        if countable and determiner == "some":
            plural = True
        plural = plural or determiner in (*NUMBERS, "many", "several", "all the")
        adjectives = self._adjectives(noun) if self._chance(described) else []
        owner = tail = None
        if not plain and determiner == "the":
            if noun.group not in ("person", "place", "mass", "drink") and self._chance(0.1):
                owner = self._owner()
            elif noun.group == "fixture" and self._chance(0.4):
                building = self._noun_phrase({"place"}, "simple", plain=True, described=0.2)
                tail = prepositional("of", building)
        if owner is tail is None:
            if noun.english == "bottle" and self._chance(0.4):
                tail = text("of", "de") + self._drink()
            elif not plain and determiner == "the" and countable and self._chance(0.12):
                tail = self._relative(noun, plural)
        return noun_phrase(
            determiner, noun.english, *adjectives, plural=plural, owner=owner, tail=tail
        )

    def _determiner(self, role: str, countable: bool) -> str:
        if role == "bare":
            return ""
        kinds = {"the": 50, "a": 16, "my": 13, "this": 7, "some": 7, "two": 6, "all the": 2,
                 "several": 2, "every": 2, "many": 1}  # fmt: skip
        fitting = set(kinds)
        if role == "existing":
            fitting = {"a", "some", "two", "many"}
        elif role == "object":  # behind a negation their scope would be doubtful
            fitting -= {"several", "every"}
        elif role == "simple":  # without what would make "de des" or "de beaucoup de"
            fitting = {"the", "a", "my", "this", "two"}
        elif role == "definite":
            fitting = {"the", "my", "this"}
        if not countable:
            fitting &= {"the", "some", "my", "this"}
        kinds = {kind: weight for kind, weight in kinds.items() if kind in fitting}
        kind = self._weighted(kinds)
        if kind == "my":
            return self._choice(list(POSSESSIVES))
        return self._choice(list(NUMBERS)) if kind == "two" else kind

    def _adjectives(self, noun: Noun) -> list[str]:
        before, after = [], []
        for adjective in LEXICON.adjectives.values():
            if noun.group in adjective.groups:
                (before if adjective.before_noun else after).append(adjective.english)
        if before and after and self._chance(0.15):
            return [self._choice(before), self._choice(after)]
        return [self._choice(before if not after or (before and self._chance(0.3)) else after)]

    def _owner(self) -> Phrase:
        if self._chance(0.3):
            return name(self._choice(list(NAMES)))
        determiner = self._choice(("the", "the", "the", *POSSESSIVES))
        return noun_phrase(determiner, self._choice(_nouns_of("person")))

    def _drink(self) -> Text:
        return noun_phrase("", self._choice(_nouns_of("drink"))).text

    def _relative(self, noun: Noun, plural: bool) -> Text:
        """Draw a relative clause such as "who sees the dog" or "that the man reads"."""
        verbs = LEXICON.transitive.values()
        if noun.group == "person" or (noun.group == "animal" and self._chance(0.5)):
            who = text("who" if noun.group == "person" else "that", "qui")
            subject = Phrase(who, who, THEY if plural else HE, noun.gender)
            fitting = [verb for verb in verbs if noun.group == "person" or "animal" in verb.notes]
            verb = self._choice(fitting)
            return clause(subject, verb, self._object(verb, subject, {"m", "f", ""}, plain=True))
        fitting = [verb for verb in verbs if noun.group in verb.objects and not verb.joins_object]
        verb = self._choice(fitting)
        return text("that", "que") + clause(self._subject(verb, plain=True), verb)


def _nouns_of(group: str) -> list[str]:
    return [noun.english for noun in LEXICON.nouns.values() if noun.group == group]


def sentences(seed: int) -> Iterator[Sentence]:
    """Yield sentences of 3 to 20 words on both sides, without end; some come more than once."""
    sampler = Sampler(seed)
    while True:
        drawn = sampler.sentence()
        if all(SHORTEST <= len(side.split()) <= LONGEST for side in drawn):
            yield drawn
