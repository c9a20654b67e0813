"""Pages for a person's browser: one file each, without a script, that asks nothing of any server."""
