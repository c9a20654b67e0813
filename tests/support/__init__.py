"""What several tests stand on: the synthesised template, the table made from it, and servers."""
