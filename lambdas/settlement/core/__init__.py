"""The saga. It imports no room (another package of `settlement`)."""
