"""A look at an account before a deployment: what the stage needs of it, with calls that change nothing."""
