"""One file a function; most are a state of the machines by the same name."""
