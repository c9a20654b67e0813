"""The optional extra `console`: the pages of `settle report`, live in a local browser.

browser ── 127.0.0.1, one session ──▶ guard ──▶ pages ──▶ the queries of the command ──▶ AWS
                                            └── decisions ──▶ the actions of the command ──▶ the orders' API
"""
