"""Alembic migrations. Never change a released one."""
