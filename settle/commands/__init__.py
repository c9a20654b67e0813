"""One file for each command, or for a group of commands that shares a noun.

A command's code is imported only when it runs. So `settle --help` and shell completion load neither boto3 nor
the embedded AWS.
"""
