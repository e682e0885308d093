"""The smallest files of a task and of a pipeline, as texts."""

from __future__ import annotations

ECHO_PIPELINE = """\
id: p
inputs: [text]
steps:
  - {id: one, template: "{{ text }}"}
outputs: [{key: said, from: one}]
"""
"""Sends its input `text` to the model. The reply is the output `said`."""


def small_task(name: str, data: str, prompt: str = "{{question}}", target: str = "{{answer}}") -> str:
    """Return a task file of seven lines that reads the JSON lines of `data`. A test may add further keys below."""
    return f"""\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
doc_to_text: "{prompt}"
doc_to_target: "{target}"
output_type: generate_until
"""
