"""A small English-French corpus, generated from a hand-made grammar: the quickstart's data.

    python fairseq_rnnsearch/data/toy_corpus.py --out DIR [--train N --valid N --test N --seed N]

writes {train,valid,test}.{en,fr}: lower-cased words separated by spaces, one sentence a line,
elided forms as words of their own ("l' homme n' aime pas ..."). Same seed, same files.

The French side is a function of the English side, so a perfect model scores 100 BLEU. What it
has to learn is what separates the two languages: gender and number agreement, adjectives after
the noun, elision, contraction (au, du), negation in two parts, do-support, object pronouns
before the verb, participles that agree, possessors after the possessed.

Each builder (`noun_phrase`, `clause`, ...) makes both sides at once; `Sampler` draws what they
are given. Only the standard library is used, so that the file also runs alone.
"""

import argparse
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

SHORTEST, LONGEST = 3, 20

# ---------------------------------------------------------------------------------------------
# Words. Plurals and feminines are written only where the rules below do not give them.
# ---------------------------------------------------------------------------------------------

# group: "english[/plural] french[/plural] gender", separated by commas
NOUNS = {
    "person": """man/men homme m, woman/women femme f, boy garçon m, girl fille f,
        child/children enfant m, king roi m, queen reine f, friend ami m, neighbor voisin m,
        teacher professeur m, doctor médecin m, nurse infirmière f, student étudiant m,
        farmer fermier m, baker boulanger m, soldier soldat m, singer chanteur m,
        actress actrice f, writer écrivain m, artist artiste m, aunt tante f, uncle oncle m,
        mother mère f, father père m, sister sœur f, brother frère m, prince prince m,
        princess princesse f, engineer ingénieur m, lawyer avocat m, hero/heroes héros m,
        worker ouvrier m, waitress serveuse f""",
    "animal": """dog chien m, cat chat m, horse cheval m, bird oiseau m, cow vache f,
        rabbit lapin m, mouse/mice souris f, bear ours m, wolf/wolves loup m, fox renard m,
        donkey âne m, duck canard m, owl hibou/hiboux m, elephant éléphant m, monkey singe m,
        goat chèvre f, hen poule f, frog grenouille f, spider araignée f""",
    "reading": """book livre m, letter lettre f, newspaper journal m, story histoire f,
        poem poème m""",
    "container": """box boîte f, bag sac m, bottle bouteille f, envelope enveloppe f,
        suitcase valise f""",
    "fixture": "door porte f, window fenêtre f",
    "furniture": "table table f, chair chaise f, bed lit m, armchair fauteuil m",
    "thing": """key clé f, lamp lampe f, clock horloge f, watch montre f,
        knife/knives couteau m, plate assiette f, umbrella parapluie m, phone téléphone m,
        computer ordinateur m, picture image f, painting tableau m, toy jouet m, ball ballon m,
        flower fleur f, gift cadeau m, guitar guitare f, mirror miroir m, tool outil m,
        axe hache f, rope corde f, basket panier m, pencil crayon m, ring bague f,
        needle aiguille f, hammer marteau m""",
    "vehicle": """car voiture f, bicycle vélo m, train train m, bus bus m, boat bateau m,
        plane avion m, truck camion m""",
    "clothes": """hat chapeau m, coat manteau m, shirt chemise f, dress robe f, skirt jupe f,
        shoe chaussure f, scarf/scarves écharpe f, glove gant m, jacket veste f""",
    "food": """apple pomme f, orange orange f, egg œuf m, cake gâteau m, tomato/tomatoes tomate f,
        strawberry fraise f, cherry cerise f, carrot carotte f, onion oignon m, pear poire f,
        sandwich sandwich m""",
    "mass": """bread pain m, cheese fromage m, meat viande f, rice riz m, soup soupe f,
        butter beurre m""",
    "drink": "water eau f, milk lait m, coffee café m, tea thé m, wine vin m, beer bière f",
    "place": """house maison f, garden jardin m, school école f, city ville f, village village m,
        street rue f, church église f, station gare f, hotel hôtel m, hospital hôpital m,
        museum musée m, park parc m, forest forêt f, restaurant restaurant m, kitchen cuisine f,
        office bureau m, market marché m, castle château m, shop magasin m, library bibliothèque f,
        theater théâtre m, farm ferme f, field champ m, factory usine f, airport aéroport m""",
}  # fmt: skip
UNCOUNTABLE = {"mass", "drink"}
THINGS = "reading container furniture thing"
SOLID = f"{THINGS} vehicle clothes"

# english: masculine [feminine], and the groups of nouns that it may describe
PRENOMINAL = f"""
    small petit: person animal {SOLID} place fixture food
    big grand: animal {SOLID} place fixture
    old vieux vieille: person animal {SOLID} place fixture
    young jeune: person animal
    beautiful beau belle: person animal {SOLID} place
    new nouveau nouvelle: {SOLID} place fixture person
    good bon bonne: food mass drink reading place
    bad mauvais: food mass drink reading
    pretty joli: {SOLID} place animal
    fat gros grosse: person animal
    huge énorme: animal place food fixture"""
POSTNOMINAL = f"""
    red rouge: {SOLID} fixture
    blue bleu: {SOLID} fixture
    green vert: {SOLID} fixture
    yellow jaune: {SOLID} fixture
    black noir: {SOLID} fixture animal
    white blanc blanche: {SOLID} fixture animal place
    gray gris: {SOLID} animal place
    pink rose: clothes thing
    purple violet violette: clothes thing
    brown brun: animal clothes furniture container
    french français: person vehicle reading food mass drink
    english anglais: person vehicle reading
    german allemand: person vehicle reading
    spanish espagnol: person reading food drink
    italian italien italienne: person vehicle reading food mass drink
    american américain: person vehicle reading
    russian russe: person reading
    chinese chinois: person reading
    happy heureux heureuse: person
    sad triste: person reading
    tired fatigué: person animal
    sick malade: person animal
    famous célèbre: person place reading
    rich riche: person
    intelligent intelligent: person animal
    strong fort: person animal
    brave courageux courageuse: person animal
    shy timide: person
    lazy paresseux paresseuse: person animal
    polite poli: person
    jealous jaloux jalouse: person
    honest honnête: person
    curious curieux curieuse: person animal
    quiet calme: person animal place
    dangerous dangereux dangereuse: animal place
    strange étrange: person animal {SOLID} place
    heavy lourd: {THINGS}
    light léger légère: {THINGS} clothes
    broken cassé: furniture thing fixture vehicle
    expensive cher chère: {SOLID} place mass drink
    empty vide: container place
    clean propre: {SOLID} fixture place
    dirty sale: {SOLID} fixture place animal
    modern moderne: vehicle place furniture
    useful utile: thing reading
    fast rapide: vehicle animal
    slow lent: vehicle animal
    hot chaud: food mass drink
    cold froid: food mass drink
    fresh frais fraîche: food mass drink"""
# masculine singular before a vowel
BEFORE_VOWEL = {"vieux": "vieil", "beau": "bel", "nouveau": "nouvel", "ce": "cet"}

# english base, third person, past [particle] | french infinitive [je il nous vous ils participle]
# | groups of objects | notes: à, de, dans join the object; "animal": may be the subject;
# "state": no past tense; "être": auxiliary; "besoin": follows the finite verb; "definite": no
# object with a or some
TRANSITIVE = f"""
    see sees saw | voir vois voit voyons voyez voient vu | person animal {SOLID} place | animal
    watch watches watched | regarder | person animal vehicle | animal
    find finds found | trouver | person animal {SOLID} | animal
    look looks looked for | chercher | person animal {SOLID} | animal
    follow follows followed | suivre suis suit suivons suivez suivent suivi | person animal | animal
    hear hears heard | entendre entends entend entendons entendez entendent entendu | \
        person animal | animal
    listen listens listened to | écouter | person |
    wait waits waited for | attendre attends attend attendons attendez attendent attendu | \
        person vehicle |
    love loves loved | aimer | person animal place | state definite
    know knows knew | connaître connais connaît connaissons connaissez connaissent connu | \
        person place | state
    admire admires admired | admirer | person place |
    help helps helped | aider | person |
    call calls called | appeler appelle appelle appelons appelez appellent appelé | person animal |
    invite invites invited | inviter | person |
    protect protects protected | protéger protège protège protégeons protégez protègent protégé | \
        person animal | animal
    visit visits visited | visiter | place |
    buy buys bought | acheter achète achète achetons achetez achètent acheté | \
        {SOLID} food mass drink |
    sell sells sold | vendre vends vend vendons vendez vendent vendu | {SOLID} food mass drink |
    choose chooses chose | choisir choisis choisit choisissons choisissez choisissent choisi | \
        {SOLID} food |
    eat eats ate | manger | food mass | animal
    drink drinks drank | boire bois boit buvons buvez boivent bu | drink | animal
    prepare prepares prepared | préparer | food mass drink |
    wear wears wore | porter | clothes |
    carry carries carried | porter | {THINGS} |
    read reads read | lire lis lit lisons lisez lisent lu | reading | state
    write writes wrote | écrire écris écrit écrivons écrivez écrivent écrit | reading |
    open opens opened | ouvrir ouvre ouvre ouvrons ouvrez ouvrent ouvert | container fixture |
    close closes closed | fermer | container fixture |
    lose loses lost | perdre perds perd perdons perdez perdent perdu | \
        reading container thing clothes |
    forget forgets forgot | oublier | reading container thing clothes |
    take takes took | prendre prends prend prenons prenez prennent pris | {THINGS} clothes |
    hide hides hid | cacher | {THINGS} food | animal
    break breaks broke | casser | furniture thing fixture |
    repair repairs repaired | réparer | furniture vehicle fixture |
    clean cleans cleaned | nettoyer nettoie nettoie nettoyons nettoyez nettoient nettoyé | \
        furniture fixture place vehicle |
    wash washes washed | laver | clothes vehicle |
    paint paints painted | peindre peins peint peignons peignez peignent peint | \
        furniture fixture place |
    have has had | avoir ai a avons avez ont eu | animal {SOLID} | state
    need needs needed | avoir ai a avons avez ont eu | {SOLID} | de besoin state
    answer answers answered | répondre réponds répond répondons répondez répondent répondu | \
        person | à
    talk talks talked to | parler | person | à
    talk talks talked about | parler | person animal reading place | de
    think thinks thought about | penser | person animal place | à
    smile smiles smiled at | sourire souris sourit sourions souriez sourient souri | person | à
    live lives lived in | habiter | place | dans state
    go goes went to | aller vais va allons allez vont allé | place | à être definite"""
INTRANSITIVE = """
    sleep sleeps slept | dormir dors dort dormons dormez dorment dormi | | animal
    work works worked | travailler | |
    sing sings sang | chanter | |
    dance dances danced | danser | |
    laugh laughs laughed | rire ris rit rions riez rient ri | |
    cry cries cried | pleurer | |
    run runs ran | courir cours court courons courez courent couru | | animal
    arrive arrives arrived | arriver | | animal être
    fall falls fell | tomber | | animal être"""
DITRANSITIVE = f"""
    give gives gave | donner | {THINGS} clothes animal |
    show shows showed | montrer | {SOLID} animal |
    send sends sent | envoyer envoie envoie envoyons envoyez envoient envoyé | {THINGS} clothes |
    lend lends lent | prêter | {SOLID} |
    offer offers offered | offrir offre offre offrons offrez offrent offert | {SOLID} animal |
    bring brings brought | apporter | {THINGS} clothes |"""
REPORTING = """
    say says said | dire dis dit disons dites disent dit | | state
    think thinks thought | penser | | state
    know knows knew | savoir sais sait savons savez savent su | | state
    believe believes believed | croire crois croit croyons croyez croient cru | | state"""
BE = "be is was | être suis est sommes êtes sont été | | animal state"
IMPERFECT_BE = ("étais", "était", "étions", "étiez", "étaient")
AUXILIARIES = {
    "avoir": ("ai", "a", "avons", "avez", "ont"),
    "être": ("suis", "est", "sommes", "êtes", "sont"),
}
MODALS = {
    "can": ("peux", "peut", "pouvons", "pouvez", "peuvent"),
    "must": ("dois", "doit", "devons", "devez", "doivent"),
    "want": ("veux", "veut", "voulons", "voulez", "veulent"),
    "going": ("vais", "va", "allons", "allez", "vont"),
}

# persons: the index into every conjugation
I, HE, WE, YOU, THEY = range(5)
ENGLISH_BE = {"present": ("am", "is", "are", "are", "are"), "past": ("was", "was", *["were"] * 3)}
# english subject: french subject, person, gender; english object, french object
PRONOUNS = {
    "i": ("je", I, "", "me", "me"),
    "he": ("il", HE, "m", "him", "le"),
    "she": ("elle", HE, "f", "her", "la"),
    "we": ("nous", WE, "", "us", "nous"),
    "you": ("vous", YOU, "", "you", "vous"),
    "they": ("ils", THEY, "m", "them", "les"),
}
NAMES = {"paul": "m", "pierre": "m", "louis": "m", "marie": "f", "anne": "f", "claire": "f"}
# english: masculine singular, feminine singular, plural
POSSESSIVES = {
    "my": ("mon", "ma", "mes"),
    "your": ("votre", "votre", "vos"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}
NUMBERS = {
    "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six",
    "seven": "sept", "eight": "huit", "nine": "neuf", "ten": "dix", "eleven": "onze",
}  # fmt: skip
ADVERBS = {
    "often": "souvent", "always": "toujours", "sometimes": "parfois", "rarely": "rarement",
    "never": "jamais",
}  # fmt: skip
PREPOSITIONS = {
    "in": "dans", "on": "sur", "under": "sous", "behind": "derrière", "in front of": "devant",
    "near": "près de", "far from": "loin de", "next to": "à côté de", "with": "avec",
    "of": "de", "to": "à",
}  # fmt: skip

VOWELS = frozenset("aàâeéèêiîoôuûyhœæ")
# a first letter in VOWELS that does not elide
ASPIRATED = frozenset({"hibou", "hiboux", "héros", "hache", "haches", "huit", "onze"})
ELIDED = {word: word[:-1] + "'" for word in ("le", "la", "de", "ne", "je", "me", "que", "si")}
CONTRACTED = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}


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
    english: str
    masculine: str
    feminine: str
    before_noun: bool
    groups: frozenset[str]


@dataclass(frozen=True)
class Verb:
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
        """The French preposition before the object, if any."""
        return next((word for word in ("à", "de", "dans") if word in self.notes), "")


class Lexicon(NamedTuple):
    nouns: dict[str, Noun]
    adjectives: dict[str, Adjective]
    transitive: dict[str, Verb]
    intransitive: dict[str, Verb]
    ditransitive: dict[str, Verb]
    reporting: dict[str, Verb]
    be: Verb


def read_lexicon() -> Lexicon:
    """The tables above, with the forms that follow from the rules filled in."""
    nouns = {}
    for group, text in NOUNS.items():
        for entry in text.split(","):
            english, french, gender = entry.split()
            english, _, english_plural = english.partition("/")
            french, _, french_plural = french.partition("/")
            nouns[english] = Noun(
                english,
                english_plural or _add_s(english),
                french,
                french_plural or _french_plural(french),
                gender,
                group,
            )
    adjectives = {}
    for text, before_noun in ((PRENOMINAL, True), (POSTNOMINAL, False)):
        for line in text.strip().splitlines():
            forms, groups = line.split(":")
            english, masculine, *feminine = forms.split()
            regular = masculine if masculine.endswith("e") else masculine + "e"
            adjectives[english] = Adjective(
                english, masculine, *(feminine or [regular]), before_noun, frozenset(groups.split())
            )
    tables = (_read_verbs(text) for text in (TRANSITIVE, INTRANSITIVE, DITRANSITIVE, REPORTING))
    return Lexicon(nouns, adjectives, *tables, _read_verbs(BE)["be"])


def _read_verbs(text: str) -> dict[str, Verb]:
    verbs = {}
    for line in text.strip().splitlines():
        english, french, objects, notes = (part.strip() for part in line.split("|"))
        base, third, past, *particle = english.split()
        infinitive, *forms = french.split()
        if not forms:
            stem = infinitive.removesuffix("er")
            nous = stem + ("eons" if stem.endswith("g") else "ons")
            forms = [stem + "e", stem + "e", nous, stem + "ez", stem + "ent", stem + "é"]
        *present, participle = forms
        verbs[" ".join([base, *particle])] = Verb(
            base,
            third,
            past,
            *(particle or [""]),
            infinitive,
            tuple(present),
            participle,
            frozenset(objects.split()),
            frozenset(notes.split()),
        )
    return verbs


def _add_s(english: str) -> str:
    if english.endswith(("s", "x", "ch", "sh")):
        return english + "es"
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ies"
    return english + "s"


def _french_plural(word: str) -> str:
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


LEXICON = read_lexicon()


# ---------------------------------------------------------------------------------------------
# Builders: English and French together.
# ---------------------------------------------------------------------------------------------


class Sentence(NamedTuple):
    english: str
    french: str


@dataclass(frozen=True)
class Text:
    """The same thing in both languages, as words."""

    english: tuple[str, ...] = ()
    french: tuple[str, ...] = ()

    def __add__(self, other: "Text") -> "Text":
        return Text(self.english + other.english, self.french + other.french)


def text(english: str, french: str) -> Text:
    return Text(tuple(english.split()), tuple(french.split()))


@dataclass(frozen=True)
class Phrase:
    """Something that can be a subject or an object.

    Attributes:
        text: as a subject, or as the object of an affirmed verb.
        negated: as the direct object of a negated verb: "a dog" is then "de chien".
        person: index into conjugations.
        gender: "m", "f"; "" for i, you, we, whose adjectives are left out.
        clitic: a pronoun's form before the verb.
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
    french, person, gender, english_object, french_object = PRONOUNS[english]
    subject = text(english, french)
    return Phrase(subject, subject, person, gender, text(english_object, french_object))


def name(english: str) -> Phrase:
    return Phrase(text(english, english), text(english, english), HE, NAMES[english])


def both(first: Phrase, second: Phrase) -> Phrase:
    """first and second; masculine if either is."""
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
    """A noun with all that belongs to it.

    Args:
        determiner: the, a, some, this, every, many, several, all the, a possessive, a number,
            or nothing ("a bottle of water").
        adjectives: in English order; in French most go behind the noun.
        plural: for "the", "some", "this" and possessives; the others imply it.
        owner: "the man 's dog"; only with "the".
        tail: what follows the noun, such as a relative clause.
    """
    if owner and determiner != "the":
        raise ValueError(f"determiner {determiner!r} with an owner: must be 'the'")
    entry = LEXICON.nouns[noun]
    described = [LEXICON.adjectives[adjective] for adjective in adjectives]
    plural = plural or determiner in (*NUMBERS, "many", "several", "all the")
    head = entry.french_plural if plural else entry.french
    before = [a for a in described if a.before_noun]
    after = [agree(a, entry.gender, plural) for a in described if not a.before_noun]
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
    """English and French determiner before the French word ``following``."""
    feminine = gender == "f"
    form = 2 if plural else int(feminine)
    if determiner in POSSESSIVES:
        # mon amie: the masculine stands before a vowel
        form = 0 if form == 1 and starts_with_vowel(following) else form
        return determiner, POSSESSIVES[determiner][form]
    if determiner in NUMBERS:
        return determiner, NUMBERS[determiner]
    if determiner == "this":
        this = "ce" if not starts_with_vowel(following) else BEFORE_VOWEL["ce"]
        return "these" if plural else "this", (this, "cette", "ces")[form]
    if determiner == "some":
        # du pain, de la soupe, de l' eau; des chiens, but de petits chiens
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
    """The French form; ``following`` is the next word where the adjective stands before it."""
    form = adjective.feminine if gender == "f" else adjective.masculine
    if plural:
        return _french_plural(form)
    if gender == "m" and following and starts_with_vowel(following):
        return BEFORE_VOWEL.get(form, form)
    return form


def prepositional(preposition: str, phrase: Phrase) -> Text:
    """E.g. near the museum, près du musée."""
    french = _joined(PREPOSITIONS[preposition].split(), phrase.text.french)
    return Text((*preposition.split(), *phrase.text.english), french)


def _joined(preposition: Sequence[str], phrase: tuple[str, ...]) -> tuple[str, ...]:
    """Contract: près de + le musée, but près de + l' homme."""
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
    """Subject, verb, object and what follows.

    Args:
        object: none for "the book that he reads"; a pronoun stands before the French verb.
        tense: present, past (passé composé; of be the imparfait) or one of MODALS.
        negative: not, ne ... pas.
        adverb: one of ADVERBS.
        question: English word order with do, French est-ce que.
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
    """What a question moves before the subject (may be empty), and the rest of the verb."""
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
    """Negation, object pronoun, finite verb, adverb, participle or infinitive."""
    clitic = object.clitic.french if object else ()
    before_finite, before_infinitive = clitic, ()
    nonfinite: list[str] = []
    if tense in MODALS:
        finite, nonfinite = MODALS[tense][subject.person], [verb.infinitive]
        before_finite, before_infinitive = (), clitic
    elif tense == "past" and verb.base == "be":
        finite = IMPERFECT_BE[subject.person]
    elif tense == "past":
        finite = AUXILIARIES[verb.auxiliary][subject.person]
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
    """Agrees with the subject after être, with an object pronoun after avoir."""
    model = subject if verb.auxiliary == "être" else clitic
    if model is None:
        return verb.participle
    if not model.gender:
        raise ValueError(f"{model.text.english[0]!r} has no gender for a participle to agree with")
    feminine = verb.participle + "e" * (model.gender == "f")
    return _french_plural(feminine) if model.plural else feminine


def predicate(adjective: str, subject: Phrase) -> Text:
    """The adjective in "the men are happy"."""
    if not subject.gender:
        raise ValueError(f"{subject.text.english[0]!r} has no gender to agree with")
    french = agree(LEXICON.adjectives[adjective], subject.gender, subject.plural)
    return text(adjective, french)


def sentence(words: Text, mark: str = ".") -> Sentence:
    """Choose a or an, elide, end with ``mark``."""
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
    """A vowel or a mute h, so that le, la, de, ... are elided before it."""
    return french[0] in VOWELS and french not in ASPIRATED


# ---------------------------------------------------------------------------------------------
# Drawing sentences.
# ---------------------------------------------------------------------------------------------

TIMES = {
    "any": [("today", "aujourd'hui"), ("here", "ici")],
    "present": [
        ("now", "maintenant"), ("every day", "chaque jour"), ("in the morning", "le matin"),
        ("in the evening", "le soir"),
    ],
    "past": [("yesterday", "hier")],
    "going": [("tomorrow", "demain")],
}  # fmt: skip
CONJUNCTIONS = {
    "because": "parce que", "and": "et", "but": "mais", "when": "quand", "if": "si",
}  # fmt: skip
PLACE_PREPOSITIONS = ("in", "in", "in", "near", "behind", "in front of", "far from", "next to")
FURNITURE_PREPOSITIONS = ("on", "on", "under", "behind", "next to", "near")
TENSES = {"present": 10, "past": 4, "can": 2, "must": 1, "want": 2, "going": 2}


class Sampler:
    """Draws sentences; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def sentence(self) -> Sentence:
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

    # kinds of sentence

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
            direct = [v for v in LEXICON.transitive.values() if not v.joins_object]
            verb = self._choice([v for v in direct if v.objects & things])
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
        """The man is not happy."""
        if self._chance(0.25):
            subject = pronoun(self._choice(("he", "she", "they")))
            group = "person"
        else:
            noun = self._choice([n for n in LEXICON.nouns.values() if n.group != "fixture"])
            group = noun.group
            subject = self._noun_phrase({group}, "simple", described=0.25)
        fitting = [
            a.english
            for a in LEXICON.adjectives.values()
            if group in a.groups and a.english not in subject.text.english
        ]
        question = self._chance(0.2)
        return sentence(
            self._being(subject, predicate(self._choice(fitting), subject), question),
            "?" if question else ".",
        )

    def _location(self) -> Sentence:
        """The dog is under the table; there is no dog under the table."""
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
        found = self._noun_phrase(groups, "existing")
        there = text("there " + ("are" if found.plural else "is"), "il y a")
        return sentence(there + found.text + where)

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

    # clauses

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
        # "is going to go" is clumsy
        return "present" if unfit or (tense == "going" and verb.base == "go") else tense

    # phrases

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
                [p for p in candidates if p.person not in reflexive and p.gender in genders]
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
        """A noun of one of the groups.

        Args:
            role: subject, object, simple (e.g. behind a preposition), definite, existing
                (behind "there is"), bare (behind "there is no").
            plain: no owner and no relative clause.
            described: probability of an adjective.
        """
        noun = self._choice([n for n in LEXICON.nouns.values() if n.group in groups])
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
        elif role == "object":  # of doubtful scope behind a negation
            fitting -= {"several", "every"}
        elif role == "simple":  # no: de + des, de + beaucoup de
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
        fitting = [a for a in LEXICON.adjectives.values() if noun.group in a.groups]
        before = [a.english for a in fitting if a.before_noun]
        after = [a.english for a in fitting if not a.before_noun]
        if before and after and self._chance(0.15):
            return [self._choice(before), self._choice(after)]
        return [self._choice(before if not after or (before and self._chance(0.3)) else after)]

    def _owner(self) -> Phrase:
        if self._chance(0.3):
            return name(self._choice(list(NAMES)))
        people = [n.english for n in LEXICON.nouns.values() if n.group == "person"]
        determiner = self._choice(("the", "the", "the", *POSSESSIVES))
        return noun_phrase(determiner, self._choice(people))

    def _drink(self) -> Text:
        drinks = [n.english for n in LEXICON.nouns.values() if n.group == "drink"]
        return noun_phrase("", self._choice(drinks)).text

    def _relative(self, noun: Noun, plural: bool) -> Text:
        """Who sees the dog; that the man reads."""
        verbs = LEXICON.transitive.values()
        if noun.group == "person" or (noun.group == "animal" and self._chance(0.5)):
            who = text("who" if noun.group == "person" else "that", "qui")
            subject = Phrase(who, who, THEY if plural else HE, noun.gender)
            verb = self._choice([v for v in verbs if noun.group == "person" or "animal" in v.notes])
            return clause(subject, verb, self._object(verb, subject, {"m", "f", ""}, plain=True))
        fitting = [v for v in verbs if noun.group in v.objects and not v.joins_object]
        verb = self._choice(fitting)
        return text("that", "que") + clause(self._subject(verb, plain=True), verb)


def sentences(seed: int) -> Iterator[Sentence]:
    """Sentences of 3 to 20 words on both sides, without end; some come more than once."""
    sampler = Sampler(seed)
    while True:
        drawn = sampler.sentence()
        if all(SHORTEST <= len(side.split()) <= LONGEST for side in drawn):
            yield drawn


def shown_sentences() -> list[Sentence]:
    """The first sentences of the validation set: adjective and noun cross more than once."""
    verbs = LEXICON.transitive
    return [
        sentence(
            clause(
                noun_phrase("the", "woman", "young"),
                verbs["buy"],
                noun_phrase("a", "car", "red"),
                rest=prepositional("near", noun_phrase("the", "church", "white")),
            )
        ),
        sentence(
            clause(
                noun_phrase("the", "cat", "black"),
                verbs["drink"],
                noun_phrase("the", "milk", "cold"),
                negative=True,
            )
        ),
        sentence(
            clause(
                noun_phrase("my", "friend", "italian"),
                LEXICON.ditransitive["give"],
                noun_phrase("the", "shirt", "blue", plural=True),
                tense="past",
                rest=prepositional("to", noun_phrase("the", "student", "curious")),
            )
        ),
        sentence(
            clause(
                noun_phrase("the", "artist", "famous"),
                verbs["paint"],
                noun_phrase("the", "door", "green", owner=noun_phrase("the", "king")),
                tense="want",
            )
        ),
    ]


def split_corpus(train: int, valid: int, test: int, seed: int) -> dict[str, list[Sentence]]:
    """Three sets of so many sentences; no English side occurs twice."""
    wanted = train + valid + test
    distinct = dict(shown_sentences()[:valid])
    source = sentences(seed)
    for _ in range(20 * wanted + 1000):
        if len(distinct) == wanted:
            break
        distinct.setdefault(*next(source))
    else:
        raise ValueError(f"the grammar ran out of new sentences: fewer than {wanted} can be drawn")
    pairs = [Sentence(*pair) for pair in distinct.items()]
    return {
        "valid": pairs[:valid],
        "test": pairs[valid : valid + test],
        "train": pairs[valid + test :],
    }


def write_corpus(folder: Path, corpus: dict[str, list[Sentence]]) -> None:
    """Write one file per set and language; a file is complete or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in corpus.items():
        for language, side in (("en", 0), ("fr", 1)):
            path = folder / f"{split}.{language}"
            partial = folder / f"{path.name}.partial"
            partial.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
            os.replace(partial, path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Write a small English-French corpus, generated from a grammar."
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--train", type=int, default=12000, help="sentences (default: 12000)")
    parser.add_argument("--valid", type=int, default=500, help="sentences (default: 500)")
    parser.add_argument("--test", type=int, default=500, help="sentences (default: 500)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for split in ("train", "valid", "test"):
        if getattr(options, split) < 1:
            parser.error(f"--{split} {getattr(options, split)}: must be at least 1")
    try:
        corpus = split_corpus(options.train, options.valid, options.test, options.seed)
    except ValueError as problem:
        parser.error(str(problem))
    write_corpus(options.out, corpus)
    words = [
        len({word for pairs in corpus.values() for pair in pairs for word in pair[side].split()})
        for side in (0, 1)
    ]
    sizes = ", ".join(f"{split} {len(corpus[split])}" for split in ("train", "valid", "test"))
    print(f"{sizes} sentences; {words[0]} English and {words[1]} French words")


if __name__ == "__main__":
    main()
