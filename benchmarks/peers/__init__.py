"""Other evaluation programs and assay, doing the same work against the same endpoint: `make bench-peers`."""
