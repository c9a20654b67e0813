"""What Alembic runs: the migrations on the connection that `schema.migrate` gives it, in one transaction."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table="migration", version_table_schema="ledger")
with context.begin_transaction():
    context.run_migrations()
