"""The name under which other tools' scripts call `assay memory eval`."""
