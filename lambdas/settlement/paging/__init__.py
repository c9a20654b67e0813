"""The room of pages to people."""
