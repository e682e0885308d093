"""`assay memory eval`: memories over sessions, judged in six dimensions, in the format of eval_framework."""
