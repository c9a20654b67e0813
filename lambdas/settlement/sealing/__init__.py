"""The format of the sealed journal: lines of rows, objects of lines, and a chain of seals over objects."""
