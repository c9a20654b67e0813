"""Pure builders of the saga's conditional writes."""
