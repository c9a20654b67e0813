"""Output: tables for people on a terminal, JSON for scripts, progress on standard error."""
