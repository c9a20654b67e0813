"""The schema's migrations, which Alembic runs in their order. A released one is never changed."""
