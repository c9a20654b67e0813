"""One file for each command, or for a group that shares a noun.

A command's code is imported only when run: `settle --help` and shell completion load neither boto3 nor the
embedded AWS.
"""
