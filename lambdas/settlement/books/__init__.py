"""The room of the books in PostgreSQL."""
