"""The reconciliation of the whole table."""
