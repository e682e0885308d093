"""`assay judge calibrate`: how well a judge agrees with the labels of a file."""
