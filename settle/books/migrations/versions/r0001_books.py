from alembic import op

revision = "r0001"
down_revision = None

TABLES = """
CREATE TABLE ledger.object (
    name text PRIMARY KEY,
    lines integer NOT NULL CHECK (lines >= 0),
    projected_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ledger.object IS 'The inbox: each object of the sealed journal, once.';

CREATE TABLE ledger.currency (
    code text PRIMARY KEY,
    exponent smallint NOT NULL CHECK (exponent BETWEEN 0 AND 8)
);
COMMENT ON TABLE ledger.currency IS 'The decimals of each currency and asset: amounts are in minor units.';

CREATE TABLE ledger.closed_month (
    month date PRIMARY KEY CHECK (extract(day FROM month) = 1),
    closed_at timestamptz NOT NULL DEFAULT now(),
    closed_by text NOT NULL DEFAULT session_user
);

CREATE TABLE ledger.entry (
    key text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    posted_at timestamptz NOT NULL,
    booked_at timestamptz NOT NULL,
    debit text COLLATE "C" NOT NULL,
    credit text COLLATE "C" NOT NULL,
    amount bigint NOT NULL CHECK (amount >= 0),
    currency text NOT NULL REFERENCES ledger.currency,
    request_hash text NOT NULL,
    projected_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (key, step),
    CHECK (debit <> credit)
);
CREATE INDEX entry_debit ON ledger.entry (debit, currency, booked_at) INCLUDE (amount);
CREATE INDEX entry_credit ON ledger.entry (credit, currency, booked_at) INCLUDE (amount);
CREATE INDEX entry_posted ON ledger.entry (posted_at);
COMMENT ON TABLE ledger.entry IS
    'Each entry of the journal: one debit and one credit of the same amount, so that each row is in balance.';
COMMENT ON COLUMN ledger.entry.posted_at IS 'The time by the journal.';
COMMENT ON COLUMN ledger.entry.booked_at IS
    'The time in the books: posted_at, but for an entry that came after its month was closed.';

CREATE TABLE ledger.put_aside (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    object text NOT NULL,
    reason text NOT NULL,
    line text NOT NULL,
    put_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ledger.put_aside IS
    'Lines of the journal that are in no book, with the reason: a person looks at each.';
"""

TRIGGERS = """
CREATE FUNCTION ledger.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$;

CREATE FUNCTION ledger.book() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    NEW.booked_at := NEW.posted_at;
    IF EXISTS (SELECT FROM ledger.closed_month
               WHERE month = date_trunc('month', NEW.posted_at AT TIME ZONE 'UTC')::date) THEN
        NEW.booked_at := greatest(clock_timestamp(), (
            SELECT (max(month) + interval '1 month') AT TIME ZONE 'UTC' FROM ledger.closed_month));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER book BEFORE INSERT ON ledger.entry FOR EACH ROW EXECUTE FUNCTION ledger.book();
"""

APPEND_ONLY = ("entry", "object", "currency", "closed_month", "put_aside")

VIEWS = """
CREATE VIEW ledger.movement AS
    SELECT e.booked_at, e.posted_at, e.key, e.step, side.account, side.change, e.currency
    FROM ledger.entry e
    CROSS JOIN LATERAL (VALUES (e.debit, -e.amount), (e.credit, e.amount)) AS side (account, change);

CREATE FUNCTION ledger.trial_balance(as_of timestamptz DEFAULT 'infinity')
RETURNS TABLE (account text, currency text, balance numeric) LANGUAGE sql STABLE AS $$
    SELECT m.account, m.currency, round(sum(m.change) / 10::numeric ^ c.exponent, c.exponent)
    FROM ledger.movement m JOIN ledger.currency c ON c.code = m.currency
    WHERE m.booked_at < as_of
    GROUP BY m.account, m.currency, c.exponent
$$;
COMMENT ON FUNCTION ledger.trial_balance IS
    'Each account''s balance before an instant. The sum of all is zero in each currency.';

CREATE VIEW ledger.statement AS
    SELECT m.account, m.currency, m.booked_at, m.posted_at, m.key, m.step,
        round(m.change / 10::numeric ^ c.exponent, c.exponent) AS change,
        round(sum(m.change) OVER (
            PARTITION BY m.account, m.currency ORDER BY m.booked_at, m.key, m.step
        ) / 10::numeric ^ c.exponent, c.exponent) AS balance
    FROM ledger.movement m JOIN ledger.currency c ON c.code = m.currency;

CREATE VIEW ledger.settlement AS
    SELECT e.key, e.currency, min(e.posted_at) AS begun_at, max(e.posted_at) AS latest_at,
        array_agg(e.step ORDER BY e.posted_at, e.step) AS steps,
        round(sum(CASE WHEN e.credit = 'escrow:' || e.key THEN e.amount WHEN e.debit = 'escrow:' || e.key
            THEN -e.amount ELSE 0 END) / 10::numeric ^ c.exponent, c.exponent) AS escrow
    FROM ledger.entry e JOIN ledger.currency c ON c.code = e.currency
    WHERE 'escrow:' || e.key IN (e.debit, e.credit)
    GROUP BY e.key, e.currency, c.exponent;

CREATE VIEW ledger.suspense AS
    SELECT * FROM ledger.entry WHERE booked_at <> posted_at;
COMMENT ON VIEW ledger.suspense IS
    'Entries that came after their month was closed: booked when they came, and for a person to look at.';
"""

ROLES = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ledger_projector') THEN
        CREATE ROLE ledger_projector NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ledger_finance') THEN
        CREATE ROLE ledger_finance NOLOGIN;
    END IF;
END $$;
GRANT USAGE ON SCHEMA ledger TO ledger_projector, ledger_finance;
GRANT SELECT, INSERT ON ledger.entry, ledger.object, ledger.currency, ledger.put_aside TO ledger_projector;
GRANT SELECT ON ledger.closed_month TO ledger_projector;
GRANT SELECT ON ledger.movement, ledger.statement, ledger.settlement, ledger.suspense TO ledger_finance;
GRANT SELECT ON ledger.currency, ledger.closed_month TO ledger_finance;
"""


def upgrade() -> None:
    for statements in (TABLES, TRIGGERS, VIEWS, ROLES):
        op.execute(statements)
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger.{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION ledger.refuse()"
        )
