"""A tokeniser whose tokens can always be joined to the original text.

    >>> split("Ім'я: l'homme, 50%!")
    ["Ім'￭", 'я', '￭:', "l'￭", 'homme', '￭,', '50', '￭%', '￭!']

A token is a word or a symbol. Words are letters, digits and the marks on them; a number keeps the
points and commas inside it, and an apostrophe between letters stays with the letters before it.
Every other character is a symbol, with what belongs to it: the marks of an emoji, the characters
that a joiner (U+200D) links, and repetitions ("..."). A space between two tokens is one space of
the text. Where the text has none, the mark U+FFED stands at the symbol, as in OpenNMT's Tokenizer.
Whatever tokens cannot hold (other white space, the mark itself) is written as U+FF05 and the four
digits of its code. ``join(split(line)) == line`` for every line of Unicode text.

Where merges split words into pieces, each digit is a piece, and so is a mark of case before
lower-case letters: U+FF05 and an arrow.

    >>> parts("McDonald2"), parts("NASA")
    (['m', 'c', '％⇧', 'donald', '2'], ['％⇪', 'nasa'])

``living/text.js`` does the same in JavaScript.
"""

from collections.abc import Container, Iterable, Sequence

import regex

JOINER = "\uffed"
ESCAPE = "\uff05"
CAPITAL = ESCAPE + "\u21e7"  # the next letter is a capital
CAPITALS = ESCAPE + "\u21ea"  # all letters to the end of the token are capitals

# what Python's str.split takes for white space; none of it is beyond U+FFFF
_SPACE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_WORD = r"\p{L}\p{N}\p{M}\p{Cf}"
_ATTACHED = r"[\p{M}\p{Cf}\U0001f3fb-\U0001f3ff]*"  # marks, joiners, skin colours
_SYMBOL = rf"[^{_WORD}{_SPACE}]"
_PIECE = regex.compile(
    rf"(?P<space>[{_SPACE}]+)"
    rf"|(?P<word>(?:[{_WORD}]|(?<=\p{{N}})[.,:](?=\p{{N}}))+(?:['’](?=\p{{L}}))?)"
    r"|[\U0001f1e6-\U0001f1ff]{2}"  # a flag
    # subword-nmt's mark at the end of a token is two of these
    r"|@"
    rf"|({_SYMBOL}){_ATTACHED}(?:(?<=\u200d){_SYMBOL}{_ATTACHED}|\3)*"
)
_SPACES = regex.compile(rf"[{_SPACE}]+")
_UNWRITABLE = regex.compile(rf"[{_SPACE}{JOINER}{ESCAPE}]")
_ESCAPED = regex.compile(rf"{ESCAPE}([0-9a-f]{{4}})")
_PART = regex.compile(rf"{CAPITALS}|{CAPITAL}|\p{{Nd}}|[^{ESCAPE}\p{{Nd}}]+")
_CASED = regex.compile(rf"{CAPITALS}(\S*)|{CAPITAL}{JOINER}?(\S?)")


def split(line: str) -> list[str]:
    """Return the tokens of a line of text."""
    tokens: list[str] = []
    is_joined = False
    for piece in _PIECE.finditer(line):
        text, is_word = piece[0], piece["word"] is not None
        if text == " " and piece.start() > 0 and piece.end() < len(line):
            is_joined = False
            continue
        text = _UNWRITABLE.sub(lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)
        if is_joined and is_word:
            tokens[-1] += JOINER
        elif is_joined:
            text = JOINER + text
        tokens.append(text)
        is_joined = True
    return tokens


def join(tokens: Sequence[str]) -> str:
    """Return the text of tokens, even for sequences from a model that no text would produce."""
    text, is_joined = "", True
    for token in tokens:
        if not is_joined and not token.startswith(JOINER):
            text += " "
        text += _ESCAPED.sub(lambda match: chr(int(match[1], 16)), shown(token))
        is_joined = token.endswith(JOINER)
    return text


def spaces_in(symbols: Iterable[str]) -> set[str]:
    """Return the white space that has a token among a model's symbols, and the plain space."""
    escaped = (shown(symbol) for symbol in symbols if ESCAPE in symbol)
    matches = filter(None, map(_ESCAPED.fullmatch, escaped))
    return {" ", *(chr(int(one[1], 16)) for one in matches)}


def with_spaces_of(line: str, known: Container[str]) -> str:
    """Strip a line, and replace each white space that is not known by a plain space.

    No training text has the line feed of a file's line, and few have two spaces in a row.
    """
    return _SPACES.sub(lambda match: match[0] if match[0] in known else " ", line.strip())


def shown(token: str) -> str:
    """Return a token as people see it: with its capitals, without marks and joiners."""
    return with_case(token.strip(JOINER))


# --- pieces of words ------------------------------------------------------------------------------


def parts(token: str) -> list[str]:
    """Return what merges may split further: marks of case, digits, and lower case between them."""
    if ESCAPE in token:  # a symbol, without letters
        return [token]
    lower = "".join(map(_lower, token))
    capitals = sum(map(str.__ne__, token, lower))
    if capitals > 1 and "".join(map(_upper, lower)) == token:
        return _PART.findall(CAPITALS + lower)
    letters = zip(token, lower, strict=True)
    return _PART.findall("".join(low if low == one else CAPITAL + low for one, low in letters))


def with_case(text: str) -> str:
    """Return words, or tokens with spaces between them, with their capitals instead of marks."""
    return _CASED.sub(lambda found: "".join(map(_upper, found[1] or found[2] or "")), text)


def _lower(letter: str) -> str:
    """Return the lower case of a capital that `_upper` gives back."""
    lower = letter.lower()
    return lower if len(lower) == 1 and lower.upper() == letter else letter


def _upper(letter: str) -> str:
    upper = letter.upper()
    return upper if len(upper) == 1 and upper.lower() == letter else letter
