"""The proof. It compares each row with its rules and entries, and sums all rows."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.core.model.stored import MalformedRow
from settlement.proof import (
    judgement,
    on_record,
    ordered,
    payout_row,
    payout_rows,
    payouts_judged,
    payrun_rows,
    rows,
    settlement_row,
    spool,
)
from settlement.proof.facts import (
    BalanceFacts,
    CaseFacts,
    EntryFacts,
    ExternalFacts,
    PayoutEntryFacts,
    SettlementFacts,
)
from settlement.proof.findings import Difference, Findings, Look, Verdict
from settlement.proof.retention import KEEPS_ALL, Old, Retention
from settlement.proof.spool import Account, Facts, Journal, OldChange, Source, Spool
from settlement.proof.watch import JUDGING, READING, CutOff, TooLong, Watch, unwatched, watched
from settlement.retention import expiry
from settlement.retention.expiry import EXPIRES
from settlement.signing.signature import RowKeys

LookAgain = Callable[[Difference], Look]
Read = Callable[[Row, Findings, Spool], str | None]
"""Spools a row's facts. Returns the row's currency. Raises MalformedRow."""


class Stage(NamedTuple):
    """The stage's rules. A rule of None is not checked.

    The index may list until `listed_until` for a settlement, `reviews_until` for a settlement in review, and
    `payouts_until` for a payout, by status.
    """

    currencies: Collection[str] | None = None
    row_keys: RowKeys | None = None
    listed_until: str | None = None
    reviews_until: str | None = None
    payouts_until: Mapping[str, str] = {}
    retention: Retention = KEEPS_ALL


UNKNOWN = Stage()


def reconcile(
    all_rows: Iterable[Row], look_again: LookAgain, watch: Watch = unwatched, stage: Stage = UNKNOWN
) -> Findings:
    """Compare every balance and escrow with its entries, and every entry with its cause.

    Money moves during the scan. So `look_again` reads a differing row once more, and only a confirmed
    difference is a fault. If the watch, the table or the disk ends the run early, the whole table is
    unproven.
    """
    findings = Findings()
    with Spool() as own, findings.unless_cut_off():
        collect(all_rows, own, findings, watch, stage)
        judge([own], findings, look_again, watch, stage.retention)
    return findings


def collect(
    all_rows: Iterable[Row], own: Spool, findings: Findings, watch: Watch, stage: Stage = UNKNOWN
) -> None:
    """Read each row, and spool the facts that the sums and comparisons need.

    Raises CutOff if the time is over, or if the scan met a row twice.
    """
    currencies, row_keys, retention = stage.currencies, stage.row_keys, stage.retention
    readers = _READERS | {"ENTRIES": partial(_read_entry, retention=retention)}
    for row in watched(all_rows, READING, watch):
        findings.rows += 1
        read = readers.get(row["pk"].partition("#")[0])
        if read is None:
            findings.unproven.append(f"{row['pk']}: {row['sk']} is of a kind that this version does not know")
            continue
        try:
            currency = read(row, findings, own)
            if EXPIRES in row and not expiry.may_expire(row, retention.days):
                raise MalformedRow(f"{EXPIRES} is none that a function of this stage gives it")
            if row_keys is not None and not row_keys.is_proven(row):
                raise MalformedRow("its signature is not that of a function of this stage")
            if currencies is not None and currency is not None and currency not in currencies:
                raise MalformedRow(f"{currency!r} is no currency of this stage")
            if _is_listed_ahead(row, stage):
                findings.ahead.append(f"{row['pk']}: the next look is at {row['gsi1sk']}")
        except MalformedRow as fault:
            findings.faults.append(f"{row['pk']}: {row['sk']} is malformed: {fault}")


def judge(
    sources: Sequence[Source],
    findings: Findings,
    look_again: LookAgain,
    watch: Watch,
    retention: Retention = KEEPS_ALL,
) -> None:
    """Judge all facts. Raises CutOff.

    Entries that may have expired are summed here, existing or restored from settlements' rows, so expiry
    during the scan changes nothing.
    """
    with Spool(OldChange) as old:
        for journal in watched(spool.settlements(sources), JUDGING, watch):
            if journal.row:
                _restore(journal, journal.row, retention)
            for entry in filter(retention.may_lack, journal.entries):
                _add_up(entry, old)
            _judge_settlement(journal, findings, look_again, retention)
        for account in watched(spool.accounts([*sources, old], retention.kept_from), JUDGING, watch):
            _judge_account(account, findings, look_again, retention)
    for told, difference in watched(payouts_judged.differing(sources), JUDGING, watch):
        _second_look(difference, told, findings, look_again)


def _restore(journal: Journal, row: SettlementFacts, retention: Retention) -> None:
    if retention.days is not None:
        journal.entries += judgement.expired(row, journal.entries, journal.evidence, retention)


def _add_up(entry: EntryFacts, own: Spool) -> None:
    if release := rows.received(entry):
        own.add(release)
    own.post(entry.account, entry.currency, entry.change)


def _is_listed_ahead(row: Row, stage: Stage) -> bool:
    if keys.is_settlement(row):
        until = stage.reviews_until if "review" in row else stage.listed_until
    else:
        until = stage.payouts_until.get(row.get("status", "")) if payout_rows.is_payout(row) else None
    return until is not None and row.get("gsi1sk", "") > until


def _read_entry(row: Row, findings: Findings, own: Spool, retention: Retention = KEEPS_ALL) -> str:
    findings.entries += 1
    entry = rows.entry(row)
    if entry.step in payout_rows.MOVED:
        _spool_moved(payout_rows.entry(row, entry), entry, own)
    elif entry.step in rows.MOVES:
        own.post(accounts.external(entry.currency), entry.currency, -entry.change)
        own.add(ExternalFacts(entry.account, *entry))
    else:
        own.add(entry)
    if not retention.may_lack(entry):
        _add_up(entry, own)
    return entry.currency


def _spool_moved(moved: PayoutEntryFacts, entry: EntryFacts, own: Spool) -> None:
    own.add(moved)
    own.post(moved.credit if entry.side == "debit" else moved.debit, entry.currency, -entry.change)
    if reserved := payout_rows.reserved(moved):
        own.add(reserved)


def _read_settlement(row: Row, findings: Findings, own: Spool) -> str:
    if not keys.is_settlement(row):
        raise MalformedRow(rows.WRONG_KEY)
    findings.settlements += 1
    facts = settlement_row.settlement(row)
    own.add(facts)
    findings.faults += (f"{row['pk']}: {fault}" for fault in settlement_row.contradictions(row, facts))
    if blocked := settlement_row.blocked_account(row, facts):
        own.add(CaseFacts(blocked, facts.key))
    return facts.currency


def _read_evidence(row: Row, findings: Findings, own: Spool) -> None:
    findings.entries += 1
    own.add(rows.evidence(row))


def _read_account(row: Row, findings: Findings, own: Spool) -> str:
    if not keys.is_account(row):
        raise MalformedRow(rows.WRONG_KEY)
    findings.accounts += 1
    facts = rows.balance(row)
    own.add(facts)
    return facts.currency


def _read_swept(row: Row, findings: Findings, own: Spool) -> None:
    for folded in rows.swept(row):
        own.add(folded)


def _read_waiting(row: Row, findings: Findings, own: Spool) -> None:
    own.add(rows.waiting(row))


def _read_proposal(row: Row, findings: Findings, own: Spool) -> None:
    own.add(rows.proposal(row))


def _read_event(row: Row, findings: Findings, own: Spool) -> None:
    own.add(rows.event(row))


def _read_order(row: Row, findings: Findings, own: Spool) -> str | None:
    facts = rows.order(row)
    own.add(facts)
    return facts.currency


def _read_bank_line(row: Row, findings: Findings, own: Spool) -> str:
    if row["sk"] != keys.bank_line("")["sk"]:
        return _read_match(row, findings, own)
    currency = rows.bank_line(row)
    if named := payout_rows.bank_line(row):
        own.add(named)
    return currency


def _read_match(row: Row, findings: Findings, own: Spool) -> str:
    facts = rows.match(row)
    of_payout = rows.of_payout(facts)
    own.add(of_payout or facts)
    if facts.teller == "line":
        own.add(rows.of_line(facts))
    return facts.currency


def _read_bank_file(row: Row, findings: Findings, own: Spool) -> str | None:
    return rows.bank_file(row)


def _read_payout(row: Row, findings: Findings, own: Spool) -> str:
    facts = payout_rows.payout(row)
    own.add(facts)
    own.add(payout_rows.paid_to(facts))
    findings.faults += (f"{row['pk']}: {fault}" for fault in payout_row.contradictions(row, facts))
    return facts.currency


def _reads(kind: Callable[[Row], Facts]) -> Read:
    def read(row: Row, findings: Findings, own: Spool) -> None:
        own.add(kind(row))

    return read


def _checks(check: Callable[[Row], None]) -> Read:
    """Build a reader of rows without money, which are not compared with other rows."""

    def read(row: Row, findings: Findings, own: Spool) -> None:
        check(row)

    return read


def _judge_settlement(
    journal: Journal, findings: Findings, look_again: LookAgain, retention: Retention
) -> None:
    key, row, entries = keys.settlement(journal.key), journal.row, journal.entries
    told = judgement.differences(row, entries, journal.evidence) if row else [judgement.NO_ROW]
    if journal.events or journal.waiting:
        told += on_record.of_others(journal.evidence, journal.events, journal.waiting)
    if journal.proposal or any(one.step.startswith(on_record.PROPOSALS) for one in journal.evidence):
        told += on_record.of_proposals(journal.evidence, journal.proposal)
    held = row
    if told:
        difference = Difference(
            *(key, row, tuple(entries), tuple(journal.evidence)),
            events=tuple(journal.events),
            waiting=journal.waiting,
            retention=retention,
        )
        look = _second_look(difference, told, findings, look_again)
        if look.verdict is Verdict.AGREES:
            held = look.row if isinstance(look.row, SettlementFacts) else row
            for currency in {one.currency for one in entries} | ({held.currency} if held else set()):
                counted = held.escrow if held and held.currency == currency else 0
                findings.move(currency, judgement.escrow_by(entries, currency) - counted)
    if held:
        findings.totals[held.currency]["escrow"] += held.escrow


def _judge_account(account: Account, findings: Findings, look_again: LookAgain, retention: Retention) -> None:
    if not accounts.is_customer(account.name):
        for currency, amount in account.sums.items():
            findings.totals[currency][account.name.partition(":")[0]] += amount
        return
    key, row, unswept = keys.account(account.name), account.row, account.waiting.unswept
    told = judgement.account_differences(row, account.sums, account.waiting, account.cases)
    if row:
        told += ordered.differences(row, account.orders, account.external)
        told += ordered.match_differences(account.orders, account.matches)
    if told:
        difference = Difference(
            *(key, row, tuple(account.external)),
            sums=dict(account.sums),
            cases=tuple(account.cases),
            orders=tuple(account.orders),
            matches=tuple(account.matches),
            retention=retention,
            old=Old(dict(account.old), account.waiting.old, account.waiting.old_above),
        )
        look = _second_look(difference, told, findings, look_again)
        if look.verdict is Verdict.AGREES:
            if isinstance(look.row, BalanceFacts):
                row, unswept = look.row, look.unswept
            for currency in account.sums.keys() | ({row.currency} if row else set()):
                counted = row.available + unswept if row and row.currency == currency else 0
                findings.move(currency, account.sums.get(currency, 0) - counted)
    if row:
        findings.totals[row.currency]["customers"] += row.available + unswept
        if unswept > 0:
            findings.unswept[account.name] = (unswept, row.currency)
        if row.available < 0:
            fault = f"is below zero: {row.available} {row.currency} (minor units)"
            findings.faults.append(f"{key['pk']}: {fault}")


def _second_look(
    difference: Difference, told: Sequence[str], findings: Findings, look_again: LookAgain
) -> Look:
    name = difference.key["pk"]
    try:
        look = look_again(difference)
    except CutOff as reason:
        findings.unproven.append(f"{name}: its second look was cut off: {reason}")
        if isinstance(reason, TooLong):
            return Look.MOVING
        raise
    if look.verdict is Verdict.AGREES:
        findings.in_flight += 1
    elif look.verdict is Verdict.DISAGREES:
        findings.faults.append(f"{name}: {'; '.join(told)}")
    else:
        findings.unproven.append(f"{name}: moved during every look; try again")
    return look


_READERS: dict[str, Read] = {
    "ENTRIES": _read_entry,
    "EVIDENCE": _read_evidence,
    "SETTLEMENT": _read_settlement,
    "ACCOUNT": _read_account,
    "SWEPT": _read_swept,
    "WAITING": _read_waiting,
    "PROPOSAL": _read_proposal,
    "KYC_EVENT": _read_event,
    "CIRCUIT": _checks(rows.circuit),
    "MIGRATION": _checks(rows.migration),
    "ORDER": _read_order,
    "BANK_LINE": _read_bank_line,
    "BANKED": _read_match,
    "BANK_FILE": _read_bank_file,
    "BANK_ORDER": _checks(rows.bank_order),
    "PAYOUT": _read_payout,
    "PAYOUT_REFERENCE": _reads(payout_rows.reference),
    "PAYOUT_DAY": _reads(payout_rows.day),
    "PAYOUT_CASE": _reads(payout_rows.case),
    "PAYOUT_LINE": _reads(payout_rows.listed_line),
    "DESTINATION": _reads(payout_rows.destination),
    "PAYRUN": _checks(payrun_rows.run),
    "PAYRUN_DECISION": _checks(payrun_rows.decision),
    "PAYRUN_LINE": _checks(payrun_rows.line),
}
