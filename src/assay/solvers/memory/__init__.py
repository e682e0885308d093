"""Solvers for memories: `conversation` for `assay memory test`, `sessions` for `assay memory eval`."""
