"""The nouns of the domain. They import nothing of this project but each other."""
