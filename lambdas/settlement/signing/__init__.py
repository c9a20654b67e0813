"""The room of signed rows."""
