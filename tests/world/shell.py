import re
import shlex
from collections.abc import Iterator

from tests.world.pages import Block

VALUES = {
    "ACCOUNT": "shop-9",
    "CASE": "1",
    "CONTEXT": "-c kyc_url=https://kyc.example.com -c page_address=you@example.com",
    "AMOUNT": "47.72",
    "DIGEST": 64 * "0",
    "KEY": "order-2026-000101",
    "SEEN": "1500-" + 64 * "0",
    "STACK": "--stack settlement-prod",
    "STAGE": "my-olga",
}
"""Example values of the shell variables in the pages' commands."""

_OPAQUE = {
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "CLUSTER", "NAME", "PATH", "PWD"),
    *("SECRET", "SETTLEMENTS_API_URL"),
}
_OPERATORS = {"|", "||", "&", "&&", ";", "(", ")"}


def commands(block: Block) -> Iterator[list[str]]:
    """Yield a block's commands: console lines after `$ `, or all script lines."""
    text = block.text
    if block.language == "console":
        shown = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        assert shown, f"{block}: a console shows a command after `$ `; output alone is text"
        text = "\n".join(shown)
    for line in text.replace("\\\n", " ").splitlines():
        yield from split(line)


def split(line: str) -> Iterator[list[str]]:
    """Yield a line's commands without redirections and leading assignments."""
    lexer = shlex.shlex(expand(line), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if token in _OPERATORS:
            if found := _without_redirections(words):
                yield found
            words = []
        else:
            words.append(token)


def expand(line: str) -> str:
    """Replace the pages' variables. Raises AssertionError for an unknown one."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        assert name in VALUES or name in _OPAQUE, f"${name}: no page sets it; add it to VALUES"
        return VALUES.get(name, name)

    return re.sub(r"\$([A-Z_]+)", value, line)


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    iterator = iter(words)
    for word in iterator:
        if word in {">", ">>", "<"}:
            next(iterator)
        elif kept or not re.fullmatch(r"[A-Z_]+=.*", word):
            kept.append(word)
    return kept
