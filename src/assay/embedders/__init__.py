"""Built-in embedders, one per file. `load()` returns one, offline and without a download."""
