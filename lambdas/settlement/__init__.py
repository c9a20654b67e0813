"""The settlement saga's domain: all money moves through it."""
