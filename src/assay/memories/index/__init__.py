"""Help for memories that search: terms of a text, postings, vectors, context and ranking."""
