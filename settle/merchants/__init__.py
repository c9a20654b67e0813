"""Merchants: what they have received and no sweep has made available."""
