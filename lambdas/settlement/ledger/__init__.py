"""The conditional writes to the table, built by pure functions and pinned by golden vectors."""
