"""The documents of tasks: where they lie, how files are read, and what `process_docs` makes of them."""
