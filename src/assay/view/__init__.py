"""The web pages of `assay view`, and the batch worker of HOP's View."""
