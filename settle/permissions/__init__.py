"""The kinds of people, and what each may do."""
