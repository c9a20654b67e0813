"""The books in PostgreSQL: a copy of the sealed journal. They are never the system of record."""
