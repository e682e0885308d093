"""One embedder per file: `load()` gives it, offline and without a download."""
