"""Reads a pipeline file: its keys, its variants, and each step as the variant has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, UsageError
from assay.core.findings import Findings, Key
from assay.core.registry import unknown
from assay.core.yamlfile import load_yaml
from assay.suites.pipeline.file.flows import find_flow

BASELINE = "baseline"
KEYS = (
    "id",
    "name",
    "description",
    "default_testset",
    "inputs",
    "steps",
    "outputs",
    "baseline",
    "variants",
    "evaluation_target",
)
OVERRIDES = ("flow", "model", "template", "system", "params", "output_parser", "code", "code_file", "target")
_ALIASES = {"agent_flow": "prompt", "code_node": "code", "batch_aggregator": "aggregate", "hoplet": "hop"}
TYPES = ("prompt", "code", "aggregate", "hop")
NOTES = frozenset({"at", "code_name"})
"""What the reader adds to a step: no key of a file."""
_FOLDER = re.compile(r"\w[\w.-]*")
_STEP_ID = re.compile(r"[\w-]+")
_RESERVED = ("inputs", "batch_items", "item")
_CODE_CONFIG = ("language", "code", "code_file", "timeout", "env_vars")
ALL = "all"
"""Every variant, on the command line."""


class InputField(Struct, frozen=True):
    """One input of a pipeline."""

    name: str
    required: bool = True


class PipelineFile:
    """A pipeline file with its structure checked. Steps stay mappings: a variant changes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.yaml = load_yaml(path)
        self.found = Findings(self.yaml)
        value = self.yaml.value
        self.found.known(value, KEYS)
        self.id = self._id(value)
        self.name = self.found.typed(value, "name", str) or self.id
        self.default_testset: str | None = self.found.typed(value, "default_testset", str)
        self.inputs = self._inputs()
        self.steps: list[dict[str, Any]] = self._steps()
        self.outputs: list[Any] = self.found.typed(value, "outputs", list) or []
        self.target: str | None = self.found.typed(value, "evaluation_target", str)
        self.variants = self._variants()
        self._check_target()

    def _id(self, value: dict[str, Any]) -> str:
        """It names a folder of results, so it is no path, and not the folder of runs."""
        name = str(self.found.typed(value, "id", str) or self.path.stem)
        if not _FOLDER.fullmatch(name) or name == "assay":
            self.found.add(("id",), f"{name!r} names the folder of the results; use letters, digits, _ and -")
        return name

    @property
    def step_ids(self) -> list[str]:
        """In file order."""
        return [str(step.get("id")) for step in self.steps]

    @property
    def known_steps(self) -> frozenset[str]:
        """What a testset may call a step: its id, or the key of its output."""
        return frozenset(self.step_ids) | {str(step.get("output_key") or step["id"]) for step in self.steps}

    @property
    def declared(self) -> frozenset[str]:
        """The names of the pipeline's inputs."""
        return frozenset(field.name for field in self.inputs)

    def _inputs(self) -> list[InputField]:
        fields = []
        for at, given in enumerate(self.found.typed(self.yaml.value, "inputs", list) or []):
            entry = {"name": given} if isinstance(given, str) else given
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                self.found.add(("inputs", at), "an input is a name, or {name, desc, required}")
                continue
            self.found.known(entry, ("name", "desc", "description", "required", "type"), ("inputs", at))
            required = self.found.typed(entry, "required", bool, ("inputs", at)) is not False
            fields.append(InputField(entry["name"], required))
        return fields

    def _steps(self) -> list[dict[str, Any]]:
        given = self.found.typed(self.yaml.value, "steps", list)
        if not given:
            self.found.add(("steps",), "a pipeline needs at least one step")
            return []
        steps, seen = [], set()
        for at, step in enumerate(given):
            if not isinstance(step, dict) or not isinstance(step.get("id"), str) or not step["id"]:
                self.found.add(("steps", at), "a step is a mapping with an id")
                continue
            if step["id"] in seen:
                self.found.add(("steps", at, "id"), f"there are two steps named {step['id']!r}")
                continue
            seen.add(step["id"])
            for key in step.keys() & NOTES:
                self.found.add(("steps", at, key), f"there is no key {key!r}")
            self._check_names(step, at, given)
            own = {key: value for key, value in step.items() if key not in NOTES}
            steps.append({**own, "type": self._type(step, at), "at": at})
        return steps

    def _check_names(self, step: dict[str, Any], at: int, steps: list[Any]) -> None:
        """What others call this step and its output must be one thing, and readable in a path."""
        if not _STEP_ID.fullmatch(step["id"]):
            self.found.add(("steps", at, "id"), f"{step['id']!r} is no name; use letters, digits, _ and -")
        key = str(step.get("output_key") or step["id"])
        name = "output_key" if step.get("output_key") else "id"
        if name == "output_key" and not _STEP_ID.fullmatch(key):
            self.found.add(("steps", at, name), f"{key!r} is no name; use letters, digits, _ and -")
        if key in _RESERVED:
            self.found.add(("steps", at, name), f"{key!r} is what the test gives; choose another name")
        others = [one for one in steps[:at] + steps[at + 1 :] if isinstance(one, dict)]
        if step.get("output_key") and any(key in (one.get("id"), one.get("output_key")) for one in others):
            self.found.add(
                ("steps", at, name), f"another step is called {key!r} or gives that; choose another name"
            )

    def _type(self, step: dict[str, Any], at: int) -> str:
        """A step that says nothing is what its keys make it."""
        told = step.get("type")
        if told is None:
            keys = step.keys()
            told = "aggregate" if keys & {"strategy", "aggregation_strategy"} else "prompt"
            told = "hop" if told == "prompt" and "target" in keys else told
            told = "code" if told == "prompt" and keys & {"code", "code_file", "code_config"} else told
        told = _ALIASES.get(str(told), str(told))
        if told not in TYPES:
            self.found.add(("steps", at, "type"), unknown("type of step", told, [*TYPES, *_ALIASES]))
        return told

    def _variants(self) -> dict[str, dict[str, Any]]:
        """Every variant's changes by step; `baseline` is always one."""
        value = self.yaml.value
        base = self.found.typed(value, "baseline", dict) or {}
        self.found.known(base, ("name", "description", "steps"), ("baseline",))
        found = {BASELINE: self._overrides(base.get("steps") or {}, ("baseline", "steps"))}
        for name, variant in (self.found.typed(value, "variants", dict) or {}).items():
            if not isinstance(variant, dict):
                self.found.add(("variants", name), "a variant is a mapping with overrides")
                continue
            if str(name) == ALL or (str(name) == BASELINE and base):
                why = "all variants" if str(name) == ALL else "what `baseline:` says"
                self.found.add(("variants", name), f"{str(name)!r} means {why}; choose another name")
            self.found.known(variant, ("description", "overrides", "name"), ("variants", name))
            changes = variant.get("overrides") or {}
            found[str(name)] = self._overrides(changes, ("variants", name, "overrides"))
        return found

    def _overrides(self, given: Any, at: Key) -> dict[str, Any]:
        if not isinstance(given, dict):
            self.found.add(at, "expected a mapping of steps to what changes in them")
            return {}
        found: dict[str, Any] = {}
        for step, change in given.items():
            if step not in self.step_ids:
                self.found.add((*at, step), unknown("step", str(step), self.step_ids))
            elif not isinstance(change, dict) or not change:
                self.found.add((*at, step), f"expected one of {', '.join(OVERRIDES)}")
            else:
                self.found.known(change, OVERRIDES, (*at, step))
                found[step] = {key: value for key, value in change.items() if key in OVERRIDES}
        return found

    def _check_target(self) -> None:
        if self.target is not None and self.target not in self.step_ids:
            self.found.add(("evaluation_target",), unknown("step", self.target, self.step_ids))

    def variant(self, name: str) -> list[dict[str, Any]]:
        """Every step as this variant has it, prompts and code read from where they stand."""
        if name not in self.variants:
            raise UsageError(f"{self.path}: {unknown('variant', name, list(self.variants))}")
        changes = self.variants[name]
        return [self._resolved(step, changes.get(step["id"]) or {}) for step in self.steps]

    def _resolved(self, step: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
        own = {key: value for key, value in step.items() if key not in ("description", "concurrent_group")}
        config = self.found.typed(own, "code_config", dict, ("steps", step["at"])) or {}
        self.found.known(config, _CODE_CONFIG, ("steps", step["at"], "code_config"))
        own.pop("code_config", None)
        own |= {key: value for key, value in config.items() if key in _CODE_CONFIG}
        if "flow" in change:  # another prompt: what the step said of the old one goes
            own = {key: value for key, value in own.items() if key not in ("template", "system")}
        merged = {**own, **change}
        if "model_override" in merged:
            merged.setdefault("model", merged.pop("model_override"))
        return self._with_code(self._with_flow(merged))

    def _with_flow(self, step: dict[str, Any]) -> dict[str, Any]:
        if step["type"] != "prompt" or "flow" not in step:
            return step
        at = ("steps", step["at"], "flow")
        if not isinstance(step.get("agent"), str):
            self.found.add(at, "a flow is one of an agent; name it with `agent:`")
            return {**step, "template": ""}
        try:
            flow = find_flow(self.path, step["agent"], str(step["flow"]))
        except InputError as error:
            for problem in error.problems:
                self.found.add(at, str(problem))
            return {**step, "template": ""}
        return {**flow.values, **step}

    def _with_code(self, step: dict[str, Any]) -> dict[str, Any]:
        named = step.pop("code_file", None)
        if "aggregation_code" in step:
            step.setdefault("code", step.pop("aggregation_code"))
        if named is None:
            return step
        for folder in (self.path.parent, Path()):
            file = folder / str(named)
            if file.is_file():
                return {**step, "code": self._text(file, step), "code_name": str(named)}
        self.found.add(("steps", step["at"], "code_file"), f"there is no file {named!r}")
        return {**step, "code": ""}

    def _text(self, file: Path, step: dict[str, Any]) -> str:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.found.add(("steps", step["at"], "code_file"), f"{file} cannot be read: {error}")
            return ""
