"""Self-contained browser pages, without scripts or requests."""
