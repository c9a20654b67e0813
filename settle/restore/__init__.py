"""The plan of a restored table."""
