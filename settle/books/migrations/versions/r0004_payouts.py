"""Views of payouts. The view `unreconciled` leaves out payouts' entries that match a bank line."""

from alembic import op

revision = "r0004"
down_revision = "r0003"

INDEX = """
CREATE INDEX entry_payout ON ledger.entry (key) WHERE starts_with(step, 'payout-');
"""

VIEWS = """
CREATE VIEW ledger.payouts AS
    WITH payout AS (
        SELECT e.key, e.currency, max(e.amount) AS amount,
            max(e.debit) FILTER (WHERE e.step = 'payout-reserve') AS account,
            min(e.posted_at) FILTER (WHERE e.step = 'payout-reserve') AS reserved_at,
            min(e.posted_at) FILTER (WHERE e.step = 'payout-pay') AS paid_at,
            min(e.posted_at) FILTER (WHERE e.step = 'payout-refuse') AS refused_at,
            min(e.posted_at) FILTER (WHERE e.step = 'payout-return') AS returned_at,
            min(e.posted_at) FILTER (WHERE e.step = 'payout-give-back') AS given_back_at,
            max(e.credit) FILTER (WHERE e.step = 'payout-give-back') AS given_back_to,
            bool_or(e.step = 'payout-return' AND e.credit = 'suspense:' || e.currency) AS to_suspense
        FROM ledger.entry e WHERE starts_with(e.step, 'payout-') GROUP BY e.key, e.currency)
    SELECT p.key, p.account, round(p.amount / 10::numeric ^ c.exponent, c.exponent) AS amount, p.currency,
        CASE WHEN p.refused_at IS NOT NULL THEN 'REFUSED'
            WHEN coalesce(p.returned_at, p.given_back_at) IS NOT NULL THEN 'RETURNED'
            WHEN p.paid_at IS NULL THEN 'IN TRANSIT'
            WHEN debit.line IS NULL THEN 'PAID'
            ELSE 'CONFIRMED' END AS status,
        p.to_suspense AND p.given_back_at IS NULL AS in_suspense,
        p.reserved_at, p.paid_at, p.refused_at, p.returned_at, p.given_back_at, p.given_back_to,
        debit.line AS debit_line, back.line AS return_line
    FROM payout p JOIN ledger.currency c ON c.code = p.currency
    LEFT JOIN ledger.bank_match debit ON debit.key = 'PAYOUT#' || p.key
    LEFT JOIN ledger.bank_match back ON back.key = 'PAYOUT#' || p.key || '#RETURN';
COMMENT ON VIEW ledger.payouts IS
    'Each payout by its entries. CONFIRMED: a line of the bank has its debit. '
    'in_suspense: it came back, and the customer does not have it yet.';

CREATE VIEW ledger.payouts_open AS
    SELECT key, account, amount, currency, reserved_at FROM ledger.payouts WHERE status = 'IN TRANSIT';
COMMENT ON VIEW ledger.payouts_open IS
    'Payouts in transit. Their sum is the balance of transit, once the books have all entries.';

CREATE OR REPLACE VIEW ledger.unreconciled AS
    SELECT 'bank' AS only_in, booked AS day, currency, change, line AS name, bank_account AS account
    FROM ledger.bank_lines WHERE key IS NULL
    UNION ALL
    SELECT 'books', (e.posted_at AT TIME ZONE 'UTC')::date, e.currency,
        round(CASE e.debit WHEN 'external:' || e.currency THEN e.amount ELSE -e.amount END
            / 10::numeric ^ c.exponent, c.exponent),
        e.key, CASE e.debit WHEN 'external:' || e.currency THEN e.credit ELSE e.debit END
    FROM ledger.entry e JOIN ledger.currency c ON c.code = e.currency
    WHERE 'external:' || e.currency IN (e.debit, e.credit)
        AND NOT EXISTS (SELECT FROM ledger.bank_match m WHERE m.key = CASE e.step
            WHEN 'payout-pay' THEN 'PAYOUT#' || e.key
            WHEN 'payout-return' THEN 'PAYOUT#' || e.key || '#RETURN'
            ELSE e.key END)
        AND e.posted_at >= (
            SELECT min(booked)::timestamp FROM ledger.bank_line l WHERE l.currency = e.currency
        ) AT TIME ZONE 'UTC';
"""

ROLES = """
GRANT SELECT ON ledger.payouts, ledger.payouts_open TO ledger_finance;
"""


def upgrade() -> None:
    for statements in (INDEX, VIEWS, ROLES):
        op.execute(statements)
