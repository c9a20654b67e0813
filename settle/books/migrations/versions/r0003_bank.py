"""The bank's lines, their orders, and a view of lines and orders without a counterpart."""

from alembic import op

revision = "r0003"
down_revision = "r0002"

TABLES = """
CREATE TABLE ledger.bank_line (
    line text COLLATE "C" PRIMARY KEY,
    bank_account text NOT NULL,
    currency text NOT NULL REFERENCES ledger.currency,
    amount bigint NOT NULL CHECK (amount > 0),
    side text NOT NULL CHECK (side IN ('in', 'out')),
    booked date NOT NULL,
    valued date NOT NULL,
    bank_reference text NOT NULL,
    file text NOT NULL,
    posted_at timestamptz NOT NULL,
    projected_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX bank_line_booked ON ledger.bank_line (currency, booked);
COMMENT ON TABLE ledger.bank_line IS 'Each line of the bank''s statements, once.';
COMMENT ON COLUMN ledger.bank_line.file IS 'The SHA-256 of the statement''s file.';

CREATE TABLE ledger.bank_match (
    line text COLLATE "C" PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE,
    account text NOT NULL,
    currency text NOT NULL REFERENCES ledger.currency,
    amount bigint NOT NULL CHECK (amount > 0),
    side text NOT NULL CHECK (side IN ('in', 'out')),
    posted_at timestamptz NOT NULL,
    projected_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ledger.bank_match IS
    'The order of a line: at most one for each line, and one line for each order. Its line may come later.';
"""

APPEND_ONLY = ("bank_line", "bank_match")

VIEWS = """
CREATE VIEW ledger.bank_lines AS
    SELECT l.booked, l.valued, l.bank_account, l.currency,
        round(CASE l.side WHEN 'in' THEN l.amount ELSE -l.amount END / 10::numeric ^ c.exponent, c.exponent)
            AS change,
        l.bank_reference, l.line, l.file, m.key, m.account, m.posted_at AS matched_at
    FROM ledger.bank_line l JOIN ledger.currency c ON c.code = l.currency
    LEFT JOIN ledger.bank_match m USING (line);
COMMENT ON VIEW ledger.bank_lines IS 'The bank''s lines, each with its order; without one, key is null.';

CREATE VIEW ledger.unreconciled AS
    SELECT 'bank' AS only_in, booked AS day, currency, change, line AS name, bank_account AS account
    FROM ledger.bank_lines WHERE key IS NULL
    UNION ALL
    SELECT 'books', (e.posted_at AT TIME ZONE 'UTC')::date, e.currency,
        round(CASE e.debit WHEN 'external:' || e.currency THEN e.amount ELSE -e.amount END
            / 10::numeric ^ c.exponent, c.exponent),
        e.key, CASE e.debit WHEN 'external:' || e.currency THEN e.credit ELSE e.debit END
    FROM ledger.entry e JOIN ledger.currency c ON c.code = e.currency
    WHERE 'external:' || e.currency IN (e.debit, e.credit)
        AND NOT EXISTS (SELECT FROM ledger.bank_match m WHERE m.key = e.key)
        AND e.posted_at >= (
            SELECT min(booked)::timestamp FROM ledger.bank_line l WHERE l.currency = e.currency
        ) AT TIME ZONE 'UTC';
COMMENT ON VIEW ledger.unreconciled IS
    'Lines without an order, and orders since a currency''s first line without a line. '
    'change is what it does to the money at the bank.';
"""

ROLES = """
GRANT SELECT, INSERT ON ledger.bank_line, ledger.bank_match TO ledger_projector;
GRANT SELECT ON ledger.bank_lines, ledger.unreconciled TO ledger_finance;
"""


def upgrade() -> None:
    for statements in (TABLES, VIEWS, ROLES):
        op.execute(statements)
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse()"
        )
