"""Domain types. They import only each other."""
