"""Compatibility package: scripts written for eval_framework call `assay memory eval` under this name."""
