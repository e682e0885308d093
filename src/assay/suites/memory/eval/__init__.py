"""`assay memory eval`: evaluates memories over many sessions in six dimensions. The file format is eval_framework's."""
