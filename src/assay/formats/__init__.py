"""Results of other programs, read and written: one file or folder for a format."""
