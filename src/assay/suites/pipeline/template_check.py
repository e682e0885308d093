"""Finds variables of templates that nothing provides, for `assay check`.

    steps:
    - {id: mood, template: "What is the mood of {{ mesage }}?"}     # the input is `message`

A step would fail with such a template. It is a warning, because a test may give the value in its `step_inputs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from assay.core.errors import InputError, Problem
from assay.core.file_check import nearest
from assay.files.paths import path_from_here
from assay.files.yaml_files import YamlFile, load_yaml
from assay.language.templates import TemplateProblem, template_names
from assay.suites.pipeline.pipeline_file import PipelineFile, output_key
from assay.suites.pipeline.project import Agent, agent_home
from assay.suites.pipeline.steps.batch import BATCH_ITEMS

# Values of the test that every step can have.
_VALUES = frozenset({"inputs", BATCH_ITEMS, "item"})
# The keys of a step's templates, and their names in a flow.
_TEMPLATES = {"template": "user_template", "system": "system_prompt"}


def unprovided_variables(file: PipelineFile, variant: str, steps: list[dict[str, Any]]) -> Iterator[Problem]:
    """Yield a warning for each variable without a value in the prompts of a variant.

    `steps` are those of the variant. A pipeline that declares no inputs takes any, so it has no such variable.
    """
    if not file.declared:
        return
    outputs = {name for step in steps for name in (output_key(step), step["id"])}
    for step in steps:
        if step["type"] != "prompt":
            continue
        mapped = _keys(step.get("input_mapping"))
        # A step with a mapping gets the outputs that it maps, and no others.
        provided = {*file.declared, *mapped, *_keys(step.get("defaults")), *_VALUES} | (set() if mapped else outputs)
        for key in _TEMPLATES:
            for name in sorted(_names(step.get(key)) - provided):
                near = nearest(name, sorted(provided))
                if name in outputs:
                    hint = "it is the output of a step; add it to the step's input_mapping"
                elif near:
                    hint = f"did you mean {near!r}?"
                elif step.get("batch_mode"):
                    continue  # it may be a field of the items
                else:
                    hint = f"the inputs are {', '.join(sorted(file.declared))}"
                message = f"no input and no step provides {name!r}; {hint}"
                yield Problem(_where(file, variant, step, key, name), message, "warning")


def _names(template: Any) -> set[str]:
    """Return the variables of a template. Templates that do not compile are reported elsewhere."""
    with suppress(TemplateProblem):
        return template_names(template) if isinstance(template, str) else set()
    return set()


def _keys(value: Any) -> set[str]:
    return set(map(str, value)) if isinstance(value, Mapping) else set()


def _where(file: PipelineFile, variant: str, step: dict[str, Any], key: str, name: str) -> str:
    """Return the file and line of a variable: in the variant's overrides, in the step, or in its flow."""
    position, step_id = step["at"], step["id"]
    change = file.variants[variant].get(step_id) or {}
    own = next(each for each in file.steps if each["at"] == position)
    if key in change:
        overrides = ("variants", variant, "overrides", step_id, key)
        baseline = ("baseline", "steps", step_id, key)
        return _line(file.yaml, overrides if overrides in file.yaml.lines else baseline, name)
    if "flow" in step and ("flow" in change or key not in own):
        with suppress(InputError):
            home = agent_home(file.path.resolve().parent, str(step.get("agent")), str(step["flow"]))
            path = Agent(home).flow_file(str(step["flow"]))
            return _line(load_yaml(path_from_here(path)), (_TEMPLATES[key],), name)
    return _line(file.yaml, ("steps", position, key), name)


def _line(yaml: YamlFile, key_path: tuple[str | int, ...], name: str) -> str:
    """Return the place of a name in a text of a YAML file. The text may have many lines."""
    file, _, start = yaml.where(*key_path).rpartition(":")
    lines = yaml.path.read_text(encoding="utf-8-sig").split("\n")
    word = re.compile(rf"\{{[^}}]*\b{re.escape(name)}\b")
    rest = range(int(start), len(lines) + 1)
    return f"{file}:{next((line for line in rest if word.search(lines[line - 1])), start)}"
