"""The bank's statements beside the books."""
