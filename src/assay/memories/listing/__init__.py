"""Help for memories that hold messages as they are."""
