"""Compares a tutorial's commands and output with a real run, or rewrites them from it."""

import re
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

LEFT_OUT = "…"
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "<instant>"),
    (re.compile(r"-[0-9a-f]{5,20}(-\d)?\b"), "-<random>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\[ *\d+\.\d s\]"), "[<time>]"),
    (re.compile(r" +\d+(\.\d+)? s\b"), " <seconds>"),
    (re.compile(r" +\d+ +\d+\+[\d.]+$| +calls +units$"), " <calls>"),
    (re.compile(r"\b\d+ (accounts|settlements|entries)\b"), r"<count> \1"),
    (re.compile(r"\b(customers|external|fees) -?[\d.]+"), r"\1 <amount>"),
)
"""Patterns of varying output, and their replacements.

The demo's sums vary with its payments while KYC is down. Times without milliseconds and changed column
widths are still differences.
"""

_BLOCK = re.compile(r"(^```console\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """A command and its output; `…` stands for omitted lines."""

    command: str
    lines: list[str]


def shown(page: str) -> list[Shown]:
    return [
        Shown(command, _trimmed(output.splitlines()))
        for _, block, _ in _BLOCK.findall(page)
        for command, output in _COMMAND.findall(block)
    ]


def difference(expected: list[str], real: list[str]) -> str:
    """Return a diff of a page's output and the real one; empty if they agree."""
    real = _trimmed(real)
    pattern = "".join(
        r"(?:.*\n)+" if line == LEFT_OUT else re.escape(stable(line)) + r"\n" for line in expected
    )
    if re.fullmatch(pattern, "".join(f"{stable(line)}\n" for line in real)):
        return ""
    return "\n".join(unified_diff(expected, renewed(expected, real), "the page", "the run", lineterm="", n=1))


def renewed(expected: list[str], real: list[str]) -> list[str]:
    """Return a run's lines, with `…` for those that the page omits."""
    real = _trimmed(real)
    found: list[str] = []
    before, after = ([_rough(line) for line in lines] for lines in (expected, real))
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, first, last in matcher.get_opcodes():
        is_left_out = LEFT_OUT in expected[start:end] and first < last
        found += [LEFT_OUT] if is_left_out and kind != "equal" else real[first:last]
    return found


def rewritten(page: str, outputs: list[list[str]]) -> str:
    """Return a page with new outputs of its commands, in order."""
    ran = iter(outputs)

    def command(match: re.Match[str]) -> str:
        expected = match[2].splitlines()
        blank = "\n" if expected and not expected[-1] else ""
        lines = renewed(_trimmed(expected), next(ran))
        return f"$ {match[1]}\n" + "".join(f"{line.rstrip()}\n" for line in lines) + blank

    return _BLOCK.sub(lambda block: block[1] + _COMMAND.sub(command, block[2]) + block[3], page)


def stable(line: str) -> str:
    for pattern, word in VARYING:
        line = pattern.sub(word, line)
    return line.rstrip()


def _rough(line: str) -> str:
    """Return a line's words, so a moved column compares equal."""
    return " ".join(stable(line).split())


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines
