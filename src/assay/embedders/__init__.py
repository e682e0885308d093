"""Built-in embedders, one per file. Each has a function `load()` that returns an Embedder without a download."""
