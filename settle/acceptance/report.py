"""The report of an acceptance: for a script as JSON, for people as Markdown."""

from typing import Any

from settle.acceptance.runner import Report
from settle.output.printable import printable


def described(report: Report) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "run": report.run,
        "stack": report.stack,
        "passed": report.passed,
        "interrupted": report.interrupted,
        "results": [
            {
                "check": one.check,
                "verdict": one.verdict.value,
                "evidence": one.evidence,
                "rows": list(one.rows),
            }
            for one in report.results
        ],
        "load": report.figures,
        "left": report.left,
    }


def markdown(report: Report) -> str:
    """Return the report as a page with one table."""
    lines = [
        f"# Acceptance of {report.stack}: {'passed' if report.passed else 'NOT passed'}",
        "",
        f"Run {report.run}{', cut short' if report.interrupted else ''}.",
        "",
        "| check | verdict | evidence | rows of not-proven-locally.md |",
        "|---|---|---|---|",
    ]
    for one in report.results:
        cells = (one.check, one.verdict.value, one.evidence, "; ".join(one.rows))
        lines.append(f"| {' | '.join(printable(cell).replace('|', chr(92) + '|') for cell in cells)} |")
    if report.figures:
        lines += ["", "Load on one payer and one payee:", "", *_table(report.figures)]
    if report.left:
        lines += ["", "Left behind:", "", *(f"- {printable(one)}" for one in report.left)]
    return "\n".join([*lines, ""])


def _table(figures: list[dict[str, Any]]) -> list[str]:
    names = [*figures[0]]
    rows = [[printable(str(one[name])) for name in names] for one in figures]
    return [f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *rows)]
