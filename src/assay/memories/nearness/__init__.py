"""Help for memories that compare texts by their vectors."""
