"""Queries: they read the table, the machines and the logs, and write nothing."""
