"""A closed month closes all earlier months, so a late entry changes no closed figure."""

from alembic import op

revision = "r0002"
down_revision = "r0001"

CLOSED_UNTIL = """
CREATE FUNCTION ledger.closed_until() RETURNS timestamptz LANGUAGE sql STABLE SET search_path = '' AS $$
    SELECT (max(month) + interval '1 month') AT TIME ZONE 'UTC' FROM ledger.closed_month
$$;
COMMENT ON FUNCTION ledger.closed_until IS
    'The end of the latest closed month: no figure before it changes. Null if no month is closed.';
"""

BOOK = """
CREATE OR REPLACE FUNCTION ledger.book() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    NEW.booked_at := NEW.posted_at;
    IF NEW.posted_at < ledger.closed_until() THEN
        NEW.booked_at := greatest(clock_timestamp(), ledger.closed_until());
    END IF;
    RETURN NEW;
END $$;
"""

CLOSE = """
CREATE FUNCTION ledger.await_projections() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE ledger.entry IN SHARE ROW EXCLUSIVE MODE;
    RETURN NULL;
END $$;
CREATE TRIGGER await_projections BEFORE INSERT ON ledger.closed_month
    FOR EACH STATEMENT EXECUTE FUNCTION ledger.await_projections();
COMMENT ON TABLE ledger.closed_month IS
    'The months that were closed, each with all before it, whether they are listed or not.';
"""


def upgrade() -> None:
    for statements in (CLOSED_UNTIL, BOOK, CLOSE):
        op.execute(statements)
