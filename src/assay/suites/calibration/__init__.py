"""`assay judge calibrate`: measures how well a judge agrees with labels."""
