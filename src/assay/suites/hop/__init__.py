"""`assay hop`: batch tests of LLM functions, in the formats of HOP."""
