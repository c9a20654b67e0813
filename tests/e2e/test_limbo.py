import pytest

from settle.accounts import statement
from settle.local.demo.stuck_reversal import messages, pager
from settle.orders import limbo, reversal
from tests.e2e.embedded import Embedded, at_once
from tests.e2e.stuck import REASON, pay, settled, stuck

pytestmark = pytest.mark.long


def resolve(embedded: Embedded, key: str, decision: str, reason: str = REASON) -> tuple[int, str, str]:
    finished = embedded.settle("limbo", "resolve", key, decision, "--reason", reason, "--json")
    return finished.returncode, finished.stdout, finished.stderr


def test_on_call_is_alerted_with_all_facts_until_a_decision(embedded: Embedded) -> None:
    one = settled(embedded)

    with pager(embedded.stack) as receive:
        reversal.reverse(embedded.stack, one.key, "the goods came back")
        alert = receive(one.key)
        again = receive(one.key)

    row = one.row()
    assert again == alert | {"alert": 2}
    assert alert.pop("execution_arn").rpartition(":")[2].startswith(f"{one.key}-reverse-")
    assert alert == {
        "summary": (
            f"{one.key} is in LIMBO since {row['gsi1sk']}: 47.72 EUR at risk,"
            f" compensate:release of account {one.payee} is stuck by InsufficientFunds"
        ),
        "key": one.key,
        "case": 1,
        "account": one.payee,
        "stuck_step": "compensate:release",
        "amount_at_risk": "47.72",
        "currency": "EUR",
        "failure": {
            "step": "compensate:release",
            "error": "InsufficientFunds",
            "cause": "payee: the account has too little available to give back what it received",
        },
        "since": row["gsi1sk"],
        "alert": 1,
        "runbook": "docs/runbooks/limbo.md",
        "next_command": f"settle limbo show {one.key}",
    }


def test_a_page_is_readable_as_plain_text(embedded: Embedded) -> None:
    one = settled(embedded)

    pages: list[dict[str, str]] = []

    def has_come() -> bool:
        pages.extend(page for page in received() if one.key in page["Message"])
        return bool(pages)

    with messages(embedded.stack) as received:
        reversal.reverse(embedded.stack, one.key, "the goods came back")
        embedded.wait_for(has_come)

    assert pages[0]["Subject"] == f"LIMBO: 47.72 EUR of {one.payee}, payment {one.key}"[:99]
    assert pages[0]["Message"].splitlines()[1:4] == [
        "This is alert 1.",
        f"Run: settle limbo show {one.key}",
        "Read: docs/runbooks/limbo.md",
    ]


def test_a_decision_unblocks_the_account_and_on_call_is_notified(embedded: Embedded) -> None:
    one = stuck(embedded)
    blocked = pay(embedded, one.payee, one.shop, "1.00")
    assert one.key in {case["key"] for case in limbo.open_cases(embedded.stack)[0]}

    with pager(embedded.stack) as receive:
        code, _, _ = resolve(embedded, one.key, "write-off")
        news = receive("out of LIMBO")

    assert code == 0
    assert (news["key"], news["decision"], news["reason"]) == (one.key, "write-off", REASON)
    assert news["by"] == "arn:aws:iam::000000000000:root"
    assert (blocked["status"], blocked["failure"]["error"]) == ("REJECTED", "AccountInLimbo")
    assert statement.show(embedded.stack, one.payee)["limbo_cases"] == 0
    assert pay(embedded, one.payee, one.shop, "1.00")["status"] == "SETTLED"


def test_one_of_two_concurrent_decisions_stands_and_can_be_repeated(
    embedded: Embedded,
) -> None:
    one = stuck(embedded)
    decisions = ("write-off", "complete")

    results = at_once([lambda d=decision: resolve(embedded, one.key, d) for decision in decisions])

    assert sorted(code for code, _, _ in results) == [0, 6]
    assert one.row()["resolutions"] == 1
    with embedded.writes_nothing():
        again = [resolve(embedded, one.key, decision) for decision in decisions]
        for_another_reason = [resolve(embedded, one.key, decision, "another") for decision in decisions]
    assert [code for code, _, _ in again] == [code for code, _, _ in results]
    assert [code for code, _, _ in for_another_reason] == [6, 6]
    assert embedded.conserved()
