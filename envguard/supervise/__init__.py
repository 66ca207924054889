"""``envguard run``: run a command untouched, look on, keep a record, say how it ended."""
