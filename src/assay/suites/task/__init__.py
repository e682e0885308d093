"""`assay task`: model tasks in the format of lm-evaluation-harness.

A run uses the modules in this order: `catalog` (finds the named tasks and groups), `config` (reads one task's
YAML), `dataset/` (reads documents), `prompts` and `outputs` (build the requests), `filters`, `metrics` and
`scorer` (score the replies), `tally` (aggregates the scores), `samples` and `results` (write the files).
`task` combines these for one task, `suite` for the whole run.
"""
