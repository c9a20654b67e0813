from collections import Counter
from collections.abc import Mapping
from typing import Any

from settle.acceptance.runner import Report
from settle.output.console import or_json, print_line, print_table
from settle.output.printable import printable


def described(report: Report) -> dict[str, Any]:
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


@or_json
def printed(found: Mapping[str, Any]) -> None:
    print_table(found["results"], ("check", "verdict", "evidence"))
    for one in found["left"]:
        print_line(f"LEFT {one}")
    counts = Counter(one["verdict"] for one in found["results"])
    figures = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print_line(f"{'passed' if found['passed'] else 'NOT PASSED'}: {figures}; run {found['run']}")
