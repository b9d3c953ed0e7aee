"""A small English-French corpus, generated from a hand-made grammar: the quickstart's data.

    python recipes/quickstart/toy_corpus.py --out DIR [--train N --valid N --test N --seed N]

writes {train,valid,test}.{en,fr}: lower-cased words separated by spaces, one sentence a line;
elided forms are words of their own ("l' homme n' aime pas ..."). The same seed gives the same
files. Only the standard library is used.

The French side is a function of the English side, so a perfect model scores 100 BLEU. It has to
learn how the two differ: gender and number, adjectives after the noun, elision,
contraction (au, du), negation, do-support, clitics, participles that agree, possessors.
"""

import argparse
import random
import re
from collections import namedtuple
from pathlib import Path

# Nouns: "english[/plural] french gender" by their groups.
NOUNS = {
    "person": """man/men homme m, woman/women femme f, boy garçon m, girl fille f, king roi m,
        child/children enfant m, queen reine f, friend ami m, neighbor voisin m, aunt tante f,
        teacher professeur m, doctor médecin m, nurse infirmière f, student étudiant m,
        uncle oncle m, farmer fermier m, baker boulanger m, soldier soldat m, singer chanteur m,
        actress actrice f, artist artiste m, mother mère f, father père m, sister sœur f,
        brother frère m, engineer ingénieur m, lawyer avocat m, worker ouvrier m""",
    "animal": """dog chien m, cat chat m, horse cheval m, bird oiseau m, cow vache f,
        rabbit lapin m, mouse/mice souris f, wolf/wolves loup m, donkey âne m, duck canard m,
        elephant éléphant m, monkey singe m, goat chèvre f, hen poule f, goose/geese oie f""",
    "thing": """book livre m, letter lettre f, newspaper journal m, box boîte f, bag sac m,
        bed lit m, suitcase valise f, door porte f, window fenêtre f, table table f, chair chaise f,
        key clé f, lamp lampe f, knife/knives couteau m, plate assiette f, umbrella parapluie m,
        computer ordinateur m, gift cadeau m, painting tableau m, ball ballon m, flower fleur f,
        guitar guitare f, pencil crayon m, hammer marteau m, car voiture f, plane avion m,
        bicycle vélo m, truck camion m, hat chapeau m, coat manteau m, shirt chemise f,
        dress robe f, shoe chaussure f, glove gant m, scarf/scarves écharpe f""",
    "food": """apple pomme f, orange orange f, egg œuf m, cake gâteau m, tomato/tomatoes tomate f,
        strawberry fraise f, cherry cerise f, carrot carotte f, onion oignon m, pear poire f""",
    "drink": "water eau f, milk lait m, coffee café m, tea thé m, wine vin m, beer bière f",
    "place": """house maison f, garden jardin m, school école f, city ville f, street rue f,
        church église f, station gare f, hotel hôtel m, hospital hôpital m, museum musée m,
        forest forêt f, kitchen cuisine f, shop magasin m, office bureau m, farm ferme f,
        market marché m, castle château m, library bibliothèque f, theater théâtre m""",
}
# Adjectives: "english masculine [feminine]" by the groups that they describe; regular feminines are
# left out. In French, those of the first table stand before the noun, too.
BEFORE = {
    "person animal": "young jeune, fat gros grosse, pretty joli",
    "animal thing place": "small petit, big grand, huge énorme, pretty joli",
    "food drink": "good bon bonne, bad mauvais",
}
AFTER = {
    "thing": """red rouge, blue bleu, green vert, yellow jaune, purple violet violette, heavy lourd,
        light léger légère, broken cassé, expensive cher chère""",
    "thing animal place": "black noir, white blanc blanche, gray gris, strange étrange",
    "person food drink": """french français, english anglais, german allemand, spanish espagnol,
        italian italien italienne, american américain, russian russe, famous célèbre""",
    "person animal": """tired fatigué, sick malade, intelligent intelligent, strong fort,
        shy timide, lazy paresseux paresseuse, curious curieux curieuse, happy heureux heureuse""",
    "food drink": "hot chaud, cold froid, fresh frais fraîche, sweet sucré",
    "place": "quiet calme, modern moderne, empty vide, dangerous dangereux dangereuse",
}
# Verbs: "english past infinitive", and unless they follow the rule of -er the forms for il and ils
# and the participle, by the groups of their objects. With "to" a person gets it; with "that" a
# clause follows. A colon stands before the preposition that joins the object.
VERBS = {
    "person animal thing place": """see saw voir voit voient vu, look:for looked chercher,
        find found trouver, love loved aimer, watch watched regarder""",
    "person animal": """follow followed suivre suit suivent suivi, help helped aider,
        guard guarded garder, hear heard entendre entend entendent entendu,
        wait:for waited attendre attend attendent attendu, talk:to talked parler:à,
        answer answered répondre:à répond répondent répondu""",
    "food": "eat ate manger, cook cooked préparer",
    "drink": "drink drank boire boit boivent bu",
    "thing food": """buy bought acheter achète achètent acheté, sell sold vendre vend vendent vendu,
        choose chose choisir choisit choisissent choisi, forget forgot oublier""",
    "thing": """hide hid cacher, break broke casser, repair repaired réparer, carry carried porter,
        paint painted peindre peint peignent peint, lose lost perdre perd perdent perdu,
        open opened ouvrir ouvre ouvrent ouvert, take took prendre prend prennent pris""",
    "place": "visit visited visiter, leave left quitter, think:about thought penser:à",
    "thing animal food to": """give gave donner, show showed montrer, lend lent prêter,
        send sent envoyer envoie envoient envoyé, offer offered offrir offre offrent offert""",
    "that": """say said dire dit disent dit, believe believed croire croit croient cru,
        know knew savoir sait savent su""",
    "": """sleep slept dormir dort dorment dormi, work worked travailler, sing sang chanter,
        laugh laughed rire rit rient ri, run ran courir court courent couru""",
}
NOUNS, BEFORE, AFTER, VERBS = (
    [(group, words.split()) for group, entries in table.items() for words in entries.split(",")]
    for table in (NOUNS, BEFORE, AFTER, VERBS)
)
# in English singular and plural; in French masculine, feminine, plural
DETERMINERS = """the the le la les, the the le la les, the the le la les, a some un une des, a some
    un une des, this these ce cette ces, my my mon ma mes, his his son sa ses, her her son sa ses,
    our our notre notre nos, your your votre votre vos, their their leur leur leurs""".split(",")
NUMBERS = "two deux, three trois, four quatre, five cinq, six six, several plusieurs".split(",")
PLACES = [("in", "dans"), ("near", "près de"), ("behind", "derrière"), ("in front of", "devant"),
          ("far from", "loin de"), ("next to", "à côté de")]  # fmt: skip
CONJUNCTIONS = [("and", "et"), ("but", "mais"), ("because", "parce que"), ("when", "quand")]
BE = [("is", "are", "est", "sont"), ("was", "were", "était", "étaient")]
VOWEL = "(?=[aeiouyhàâéèêîôœ])"  # no h here is aspirated
Sentence = namedtuple("Sentence", "english french")
SHOWN = """the young woman buys a red car near the white church .
la jeune femme achète une voiture rouge près de l' église blanche .
the black cat does not drink the cold milk .
le chat noir ne boit pas le lait froid .
my italian friend gave the blue shirts to the curious student .
mon ami italien a donné les chemises bleues à l' étudiant curieux .
the famous artist painted the king 's green door .
l' artiste célèbre a peint la porte verte du roi .""".split("\n")
SHOWN = [*map(Sentence, SHOWN[::2], SHOWN[1::2])]  # the first of the validation set: for heatmaps
# A subject or an object. In French an object pronoun is a clitic, which stands before the verb.
Phrase = namedtuple(
    "Phrase", "english french several gender clitic", defaults=("", "", False, "m", "")
)
SUBJECTS = Phrase("he", "il"), Phrase("she", "elle", False, "f"), Phrase("they", "ils", True)
OBJECTS = (Phrase("him", clitic="le"), Phrase("her", gender="f", clitic="la"),
           Phrase("them", several=True, clitic="les"))  # fmt: skip


def plural(word: str) -> str:
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("" if word[-1] in "sxz" else "x" if word.endswith("eau") else "s")


def with_s(word: str) -> str:
    """Return the plural of an English noun, or the third person of a verb."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def agree(adjective: list[str], gender: str, several: bool) -> str:
    """Return the French form of an adjective."""
    form = adjective[1]
    if gender == "f":
        form = adjective[2] if len(adjective) == 3 else form.removesuffix("e") + "e"
    return plural(form) if several else form


def sentence(english: str, french: str, mark: str = ".") -> Sentence:
    """Make a sentence that ends with ``mark``: choose a or an, elide and contract in French."""
    english, french = (" ".join(side.split()) for side in (english, french))
    english = re.sub(r"(?<!\S)a (?=[aeio]|um|un|hon)", "an ", english)
    french = re.sub(rf"(?<!\S)(m|s)a {VOWEL}", r"\1on ", french)
    french = re.sub(rf"(?<!\S)ce {VOWEL}", "cet ", french)
    french = re.sub(rf"(?<!\S)(l|d|n|qu)[ea] {VOWEL}", r"\1' ", french)
    for apart, joined in {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}.items():
        french = re.sub(rf"(?<!\S){apart} ", f"{joined} ", french)
    return Sentence(f"{english} {mark}", f"{french} {mark}")


class Sampler(random.Random):
    """Draws sentences and their parts in both languages; the same seed draws the same ones."""

    def sentence(self) -> Sentence:
        """Draw one sentence, of any length."""
        kind = self.random()
        if kind < 0.42:
            return sentence(*self.clause())
        if kind < 0.55:
            return sentence(*self.clause(question=True), "?")
        if kind < 0.7:  # the man is not happy
            group = self.choice(NOUNS)[0]
            subject = self.noun_phrase(group)
            adjective = self.choice(fitting(BEFORE + AFTER, group))
            form = agree(adjective, subject.gender, subject.several)
            return self.being(subject, adjective[0], form)
        if kind < 0.78:
            return self.being(self.subject(), *self.place())
        parts = self.clause(short=True), self.choice(CONJUNCTIONS), self.clause(short=True)
        return sentence(*map(" ".join, zip(*parts, strict=True)))

    def being(self, subject: Phrase, english: str, french: str) -> Sentence:
        """Make a sentence of a subject, to be and what follows, perhaps negated."""
        verb = self.choice(BE)
        is_, est = verb[subject.several], verb[2 + subject.several]
        if self.random() < 0.25:
            is_, est = f"{is_} not", f"ne {est} pas"
        return sentence(f"{subject.english} {is_} {english}", f"{subject.french} {est} {french}")

    def clause(self, short=False, question=False, subject: Phrase | None = None) -> tuple[str, str]:
        """Draw a subject if there is none, a verb, perhaps an object and what follows."""
        objects, verb = self.choice(VERBS)
        (base, _, particle), (infinitive, _, joins) = (verb[i].partition(":") for i in (0, 2))
        stem = infinitive[:-2]
        finite, finites, participle = verb[3:] or (f"{stem}e", f"{stem}ent", f"{stem}é")
        subject, target, more = subject or self.subject(), Phrase(), ("", "")
        negative = not question and self.random() < 0.25
        if objects == "that":
            said = self.clause(short=True)
            more = f"that {said[0]}", f"que {said[1]}"
        elif "person" in objects and not joins and self.random() < 0.3:
            target = self.choice(OBJECTS)
        elif objects:
            target = self.noun_phrase(objects, definite=bool(joins), negative=negative)
        if objects.endswith("to"):
            person = self.noun_phrase("person", definite=True)
            more = f"to {person.english}", f"à {person.french}"
        elif objects != "that" and not short and self.random() < 0.3:
            more = self.place()
        past, auxiliary = self.random() < 0.3, ""
        main = verb[1] if past else base if subject.several else with_s(base)
        if negative or question:
            main, auxiliary = base, "did" if past else "do" if subject.several else "does"
        first = (auxiliary, subject.english) if question else (subject.english, auxiliary)
        english = *first, "not" * negative, main, particle, target.english, more[0]
        if past:
            finite, finites = "a", "ont"
            if target.clitic:
                participle = agree(["", participle], target.gender, target.several)
        french = (
            *("est-ce que" * question, subject.french, "ne" * negative, target.clitic),
            *(finites if subject.several else finite, "pas" * negative, participle * past),
            *(joins, target.french, more[1]),
        )
        return " ".join(english), " ".join(french)

    def place(self) -> tuple[str, str]:
        (english, french), where = self.choice(PLACES), self.noun_phrase("place", definite=True)
        return f"{english} {where.english}", f"{french} {where.french}"

    def subject(self) -> Phrase:
        if self.random() < 0.3:
            return self.choice(SUBJECTS)
        noun = self.noun_phrase(self.choice(("person", "person", "animal")))
        if self.random() < 0.65:
            return noun
        who = noun._replace(english=f"{noun.english} who", french=f"{noun.french} qui")
        english, french = self.clause(short=True, subject=who)
        return noun._replace(english=english, french=french)

    def noun_phrase(self, groups: str, definite: bool = False, negative: bool = False) -> Phrase:
        """Draw a noun with its determiner, adjectives and owner; if definite, without "some"."""
        group, (english, french, gender) = self.choice(
            [(group, noun) for group, noun in NOUNS if group in groups.split()]
        )
        english, _, english_plural = english.partition("/")
        several = group != "drink" and self.random() < 0.3
        if several:
            english, french = english_plural or with_s(english), plural(french)
        before, after = [], []
        if self.random() < 0.22:
            before.append(self.choice(fitting(BEFORE, group)))
        if self.random() < (0.2 if before else 0.45):
            after.append(self.choice(fitting(AFTER, group)))
        english = " ".join([*(adjective[0] for adjective in before + after), english])
        before, after = ([agree(a, gender, several) for a in side] for side in (before, after))
        one, more, le, la, les = self.choice(DETERMINERS).split()
        if one == "a" and ((definite and several) or group == "drink"):
            one, more, le, la, les = DETERMINERS[0].split()
        determiner, article = (more, les) if several else (one, la if gender == "f" else le)
        if one == "a" and negative:  # he does not have a dog: il n' a pas de chien
            determiner, article = "any" if several else "a", "de"
        elif several and one == "a" and before:
            article = "de"
        elif several and not definite and self.random() < 0.25:
            determiner, article = self.choice(NUMBERS).split()
        elif determiner == "the" and self.random() < 0.3:
            owner = self.noun_phrase("person", definite=True)
            determiner, after = f"{owner.english} 's", [*after, "de", owner.french]
        french = " ".join([article, *before, french, *after])
        return Phrase(f"{determiner} {english}", french, several, gender)


def fitting(table: list[tuple[str, list[str]]], group: str) -> list[list[str]]:
    """Return the adjectives that describe a group."""
    return [words for groups, words in table if group in groups.split()]


def split_corpus(train: int, valid: int, test: int, seed: int) -> dict[str, list[Sentence]]:
    """Make three sets of so many sentences of 3 to 20 words; no English side occurs twice."""
    sampler = Sampler(seed)
    distinct = {pair.english: pair for pair in SHOWN[:valid]}
    while len(distinct) < train + valid + test:
        pair = sampler.sentence()
        if all(3 <= len(side.split()) <= 20 for side in pair):
            distinct.setdefault(pair.english, pair)
    pairs = list(distinct.values())
    return {"valid": pairs[:valid], "test": pairs[valid:][:test], "train": pairs[valid + test :]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    for option, default in {"train": 12000, "valid": 500, "test": 500, "seed": 1}.items():
        parser.add_argument(f"--{option}", type=int, default=default, help="default: %(default)s")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    corpus = split_corpus(options.train, options.valid, options.test, options.seed)
    for split, pairs in corpus.items():
        for side, language in enumerate(("en", "fr")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (options.out / f"{split}.{language}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
