"""One file for each command, or for a group that shares a noun.

Its code is imported only when it runs: `settle --help` and shell completion load neither boto3 nor the
embedded AWS.
"""
