"""The commands: one file a command, or a group of commands that share a noun.

A module declares its arguments and imports what it calls only when it runs: `settle --help` and shell
completion load neither boto3 nor the embedded AWS.
"""
