"""The books in PostgreSQL: a copy of the sealed journal, never the system of record."""
