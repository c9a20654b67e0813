"""Settlements: their start, their state, and what is in flight."""
