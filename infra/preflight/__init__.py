"""Read-only checks of an account before a deployment."""
