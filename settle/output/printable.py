"""Makes text that cannot move a terminal's cursor, change a colour or end a line."""

import unicodedata

_HIDDEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories: control characters, half surrogate pairs, line and paragraph separators."""

_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that change the order of shown text."""


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(_escaped(char) if _is_hidden(char) else char for char in text)


def is_printable(text: str) -> bool:
    return text.isprintable() or not any(map(_is_hidden, text))


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN or char in _BIDIRECTIONAL


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
