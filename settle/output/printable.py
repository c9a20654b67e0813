"""Text that a terminal only shows: nothing in it moves the cursor, changes a colour or ends a line."""

import unicodedata

_HIDDEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories: control characters, half surrogate pairs, line and paragraph separators."""

_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that make a terminal show text in another order than it is stored."""


def printable(text: str) -> str:
    """Return the text with each character that a terminal would obey escaped: ESC as backslash, x1b."""
    if text.isprintable():
        return text
    return "".join(_escaped(char) if _is_hidden(char) else char for char in text)


def is_printable(text: str) -> bool:
    """Return whether a terminal shows the text as it is."""
    return text.isprintable() or not any(map(_is_hidden, text))


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN or char in _BIDIRECTIONAL


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
