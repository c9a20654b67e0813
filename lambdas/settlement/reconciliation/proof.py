"""The proof itself: each row against its entries, and the sums of all."""

from collections.abc import Callable, Iterable, Sequence

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import accounts
from settlement.model.state import MalformedRow
from settlement.reconciliation import facts, judgement
from settlement.reconciliation.findings import Difference, Findings, Look
from settlement.reconciliation.spool import Account, Journal, Spool

LookAgain = Callable[[Difference], Look]

_LEDGER = ("ACCOUNT", "SETTLEMENT", "ENTRIES", "EVIDENCE", "SWEPT")
"""The kinds of rows that have to do with money. All others are left alone."""


def reconcile(all_rows: Iterable[Row], look_again: LookAgain) -> Findings:
    """Compare every balance and escrow with its entries, and every entry with what explains it.

    The rows are read one after the other while money moves, so a row may be newer or older than the
    entries seen for it. `look_again` looks at such a row by itself; only a difference that it finds is a
    fault.
    """
    findings = Findings()
    with Spool() as spool:
        for row in all_rows:
            try:
                _read(row, findings, spool)
            except MalformedRow as fault:
                findings.faults.append(f"{row['pk']}: {row['sk']} is malformed: {fault}")
        for journal in spool.settlements():
            _judge_settlement(journal, findings, look_again)
        for account in spool.accounts():
            _judge_account(account, findings, look_again)
    return findings


def _read(row: Row, findings: Findings, spool: Spool) -> None:
    """Spool what is to be judged of a row, and add up its money. Raises MalformedRow."""
    if keys.is_entry(row):
        findings.entries += 1
        entry = facts.entry(row)
        if entry.step in facts.EXTERNAL:
            spool.post(accounts.external(entry.currency), entry.currency, -entry.change)
        else:
            spool.add(entry)
        if release := facts.received(entry):
            spool.add(release)
        spool.post(entry.account, entry.currency, entry.change)
    elif keys.is_settlement(row):
        findings.settlements += 1
        spool.add(facts.settlement(row))
    elif keys.is_evidence(row):
        findings.entries += 1
        spool.add(facts.evidence(row))
    elif keys.is_swept(row):
        for folded in facts.swept(row):
            spool.add(folded)
    elif keys.is_account(row):
        findings.accounts += 1
        spool.add(facts.balance(row))
    elif keys.subject(row)[0] in _LEDGER:
        raise MalformedRow("no row of its kind has such a key")


def _judge_settlement(journal: Journal, findings: Findings, look_again: LookAgain) -> None:
    key, row, entries = keys.settlement(journal.key), journal.row, journal.entries
    held = {
        currency: judgement.escrow_by(entries, currency) for currency in {one.currency for one in entries}
    }
    told = judgement.differences(row, entries, journal.evidence) if row else [judgement.NO_ROW]
    counts = True
    if told:
        seen = tuple(map(judgement.address, entries))
        counts = _disagrees(Difference(key, seen), told, findings, look_again)
    if row:
        held[row.currency] = row.escrow if counts else held.get(row.currency, 0)
        findings.faults += (f"{key['pk']}: {fault}" for fault in judgement.faults_of(row))
    for currency, amount in held.items():
        findings.totals[currency]["escrow"] += amount


def _judge_account(account: Account, findings: Findings, look_again: LookAgain) -> None:
    key, row, posted = keys.account(account.name), account.row, dict(account.sums)
    if row or accounts.is_customer(account.name):
        told = judgement.account_differences(row, posted, account.waiting)
        counts = not told or _disagrees(Difference(key), told, findings, look_again)
        if row:
            unswept = account.waiting.unswept
            posted[row.currency] = row.available + unswept if counts else posted.get(row.currency, 0)
            if unswept > 0:
                findings.unswept[account.name] = (unswept, row.currency)
            if row.available < 0:
                fault = f"is below zero: {row.available} {row.currency} (minor units)"
                findings.faults.append(f"{key['pk']}: {fault}")
    kind = "customers" if accounts.is_customer(account.name) else account.name.partition(":")[0]
    for currency, amount in posted.items():
        findings.totals[currency][kind] += amount


def _disagrees(
    difference: Difference, told: Sequence[str], findings: Findings, look_again: LookAgain
) -> bool:
    """Return whether a second look finds the row as it was scanned, and its difference a fault."""
    look, name = look_again(difference), difference.key["pk"]
    if look is Look.AGREES:
        findings.in_flight += 1
    elif look is Look.DISAGREES:
        findings.faults.append(f"{name}: {'; '.join(told)}")
    else:
        findings.unproven.append(f"{name}: moved during every look; try again")
    return look is Look.DISAGREES
