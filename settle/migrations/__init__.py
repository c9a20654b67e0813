"""Migrations of the table's rows, while payments are in flight."""
