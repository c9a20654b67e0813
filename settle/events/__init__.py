"""The outcome events."""
