"""A day of the worst KYC provider imaginable, played on an embedded AWS in minutes."""
