"""Checks the agents of a Prompt Lab project and their flows, for `assay check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, Problem, unknown
from assay.core.file_check import nearest
from assay.files.schema import KeyPath
from assay.files.yaml_files import YamlFile, load_yaml
from assay.language.templates import Template, TemplateProblem
from assay.scoring.expectations import rule_problems
from assay.suites.pipeline.pipeline_file import flow_keys
from assay.suites.pipeline.project import Agent, missing_testset
from assay.suites.pipeline.steps.prompt_step import parser

# Keys of `agent.yaml`, of its mappings, and of a flow. Projects add keys of their own, so only a key that is nearly one
# of these is a mistake.
_AGENT_KEYS = [
    "id",
    "name",
    "type",
    "description",
    "business_goal",
    "expectations",
    "default_testset",
    "extra_testsets",
    "flows",
    "baseline_flow",
    "evaluation",
    "category",
]
_EXPECTATION_KEYS = ["must_have", "nice_to_have"]
_EVALUATION_KEYS = [
    "judge_agent_id",
    "judge_flow",
    "scale",
    "preferred_judge_model",
    "temperature",
    "rules",
    "case_fields",
]
_FLOW_ENTRY_KEYS = ["name", "file", "notes"]
_FLOW_KEYS = ["name", "description", "system_prompt", "user_template", "defaults", "output_parser"]


def check_agent(path: Path) -> list[Problem]:
    """Return the problems of an agent: wrong flows and rules, misspelled keys, names of nothing."""
    try:
        agent = Agent(path.parent)
        problems = [*_misspelled_agent_keys(agent.yaml), *_unknown_names(agent)]
        for flow in agent.flows():
            problems += check_flow(agent.flow_file(flow))
    except InputError as error:
        return error.problems
    for place, message in rule_problems(agent.rules()):
        problems.append(Problem(agent.yaml.where("evaluation", "rules"), f"evaluation.rules{place}: {message}"))
    return problems


def check_flow(path: Path) -> list[Problem]:
    """Return the problems of a flow: no template, a template that does not compile, an unknown parser."""
    try:
        keys = flow_keys(path)
    except InputError as error:
        return error.problems
    problems = list(_misspelled(load_yaml(path), (), _FLOW_KEYS))
    for name in ("template", "system"):
        try:
            Template(keys.get(name, ""))
        except TemplateProblem as problem:
            problems.append(Problem(str(path), f"{name}: {problem}"))
    try:
        parser(keys.get("output_parser"))
    except ValueError as error:
        problems.append(Problem(str(path), f"output_parser: {error}"))
    return problems


def _unknown_names(agent: Agent) -> Iterator[Problem]:
    """Yield a baseline that is no flow, and testsets that do not exist. A run may name another testset."""
    values = agent.yaml.value
    baseline = values.get("baseline_flow")
    if baseline is not None and str(baseline) not in agent.flows():
        yield agent.yaml.problem(("baseline_flow",), unknown("flow", str(baseline), agent.flows()))
    extra = values.get("extra_testsets")
    testsets: list[tuple[KeyPath, Any]] = [(("default_testset",), values.get("default_testset"))]
    testsets += [
        (("extra_testsets", position), name) for position, name in enumerate(extra if isinstance(extra, list) else ())
    ]
    for key_path, name in testsets:
        if isinstance(name, str) and (message := missing_testset(name, agent.yaml.path, agent.home.name)):
            yield agent.yaml.problem(key_path, message, "warning")


def _misspelled_agent_keys(yaml: YamlFile) -> Iterator[Problem]:
    yield from _misspelled(yaml, (), _AGENT_KEYS)
    yield from _misspelled(yaml, ("expectations",), _EXPECTATION_KEYS)
    yield from _misspelled(yaml, ("evaluation",), _EVALUATION_KEYS)
    flows = yaml.value.get("flows")
    for position in range(len(flows) if isinstance(flows, list) else 0):
        yield from _misspelled(yaml, ("flows", position), _FLOW_ENTRY_KEYS)


def _misspelled(yaml: YamlFile, key_path: KeyPath, known: list[str]) -> Iterator[Problem]:
    """Yield a warning for each key of a mapping that is nearly a known one. `key_path` is that of the mapping."""
    mapping: Any = yaml.value
    for step in key_path:
        mapping = mapping.get(step) if isinstance(mapping, dict) else mapping[step]
    for key in mapping if isinstance(mapping, dict) else ():
        if key not in known and (near := nearest(str(key), known)):
            yield yaml.problem((*key_path, str(key)), f"is not read; did you mean {near!r}?", "warning")
