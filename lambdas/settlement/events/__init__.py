"""The room of outcome events."""
