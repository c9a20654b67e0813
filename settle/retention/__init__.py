"""Entries that have expired, from the sealed journal."""
