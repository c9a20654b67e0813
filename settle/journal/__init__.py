"""The sealed journal."""
