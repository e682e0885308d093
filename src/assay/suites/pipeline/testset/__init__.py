"""The testset format: records out of a file, cases out of records, groups out of several files."""
