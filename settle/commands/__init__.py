"""One file for each command, or for a group that shares a noun.

A module imports its code only when it runs: `settle --help` and shell completion load neither boto3 nor the
embedded AWS.
"""
