"""Accounts: orders on them, and their statements."""
