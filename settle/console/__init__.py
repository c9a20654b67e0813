"""The pages of `settle report`, live in a browser on this machine: the optional extra `console`.

browser ── 127.0.0.1, one session ──▶ guard ──▶ pages ──▶ the queries of the command ──▶ AWS
                                            └── decisions ──▶ the actions of the command ──▶ the door
"""
