"""Reports for people: a settlement's page, the queue, a day."""
