"""Dictionaries that remember their file, for messages."""

from fairseq.data import Dictionary


class FileDictionary(Dictionary):
    """fairseq's dictionary, and the file that it was read from."""

    path = ""

    @classmethod
    def load(cls, f: str, add_special_symbols: bool = True) -> "FileDictionary":
        """Read a dictionary's file."""
        dictionary = super().load(f, add_special_symbols)
        dictionary.path = f
        return dictionary
