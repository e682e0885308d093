"""A run from its spec to its report, and everything that is done with runs: check, import, export, merge, rescore."""
