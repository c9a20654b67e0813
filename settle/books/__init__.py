"""The books in PostgreSQL: a projection of the sealed journal for finance, and never the system of record."""
