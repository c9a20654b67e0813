"""What Alembic runs: the migrations on the connection that it is given, in one transaction, or as text."""

from alembic import context

given = (
    {"dialect_name": "postgresql", "dialect_opts": {"paramstyle": "named"}}  # which doubles no percent sign
    if context.is_offline_mode()
    else {"connection": context.config.attributes["connection"]}
)
context.configure(**given, version_table="migration", version_table_schema="ledger")
with context.begin_transaction():
    context.run_migrations()
