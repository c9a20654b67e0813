"""One file, one state of the machines, one function."""
