"""The room of the sealed journal."""
