"""Alembic's entry point. It migrates a given connection, or prints SQL."""

from alembic import context

given = (
    {"dialect_name": "postgresql", "dialect_opts": {"paramstyle": "named"}}  # keeps percent signs single
    if context.is_offline_mode()
    else {"connection": context.config.attributes["connection"]}
)
context.configure(**given, version_table="migration", version_table_schema="ledger")
with context.begin_transaction():
    context.run_migrations()
