"""The room of entries that expire."""
