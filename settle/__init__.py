import os

# The command shares the store with the functions, whose logs and metrics are not for a terminal.
os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "CRITICAL")
os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")

# The embedded AWS is on this machine, so no proxy leads to it.
for _name in ("NO_PROXY", "no_proxy"):
    os.environ[_name] = ",".join(filter(None, (os.environ.get(_name), "127.0.0.1")))
