"""`assay hop`: runs an LLM function over the rows of a file and scores its results, in the formats of HOP."""
