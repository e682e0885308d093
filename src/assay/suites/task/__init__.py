"""`assay task`: model tasks in the format of lm-evaluation-harness.

A run goes through `catalog` (names on the command line become tasks and groups), `config` (one task's YAML),
`dataset/` (documents), `prompts` and `outputs` (what is asked), `filters`, `metrics` and `scorer` (what is
measured), `tally` (numbers), `samples` and `results` (the files). `task` holds one task together, `suite` the run.
"""
