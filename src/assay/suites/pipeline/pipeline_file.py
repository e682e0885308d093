"""A pipeline file: its inputs, steps, outputs and variants, and Prompt Lab's own prompts (flows).

    file = PipelineFile(Path("sentiment.yaml"))
    steps = file.variant("short")       # every step as this variant has it, prompts and code read
    refuse(file.problems, file.path)    # everything wrong in the file at once

Steps stay mappings here, because a variant changes them key by key. `builder.py` makes them runnable.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from assay.core.errors import InputError, Problem, UsageError
from assay.core.registry import unknown
from assay.core.schema import KeyPath, convert
from assay.core.yamlfile import load_yaml

BASELINE = "baseline"
ALL = "all"
"""Every variant, on the command line."""
TYPES = ("prompt", "code", "aggregate", "hop")
OVERRIDES = ("flow", "model", "template", "system", "params", "output_parser", "code", "code_file", "target")
READER_KEYS = frozenset({"at", "code_name"})
"""What the reader adds to a step: its place in the file and its code's name. No key of a file."""

TYPE_ALIASES = {
    "agent_flow": "prompt",
    "code_node": "code",
    "batch_aggregator": "aggregate",
    "hoplet": "hop",
}
_FOLDER_NAME = re.compile(r"\w[\w.-]*")
_STEP_ID = re.compile(r"[\w-]+")
_RESERVED = ("inputs", "batch_items", "item")
# Folders above the pipeline file in which `agents/` is looked for.
_AGENT_LEVELS = 6
_AGENT_NAME = re.compile(r"[\w.-]+")
_FLOW_FIELD = re.compile(r"\{\{\s*(\w+)\s*\}\}|\{\{|\}\}|\{(\w+)\}")
_FLOW_FIELD_IN_JINJA = re.compile(r"(?<![{%])\{(\w+)\}(?!\})")

_Mapping = dict[Any, Any]


class FileShape(Struct, forbid_unknown_fields=True):
    """The keys of a pipeline file."""

    id: str | None = None
    name: str | None = None
    description: Any = None
    default_testset: str | None = None
    inputs: list[Any] | None = None
    steps: list[Any] | None = None
    outputs: list[Any] | None = None
    baseline: _Mapping | None = None
    variants: _Mapping | None = None
    evaluation_target: str | None = None


class InputShape(Struct, forbid_unknown_fields=True):
    """The keys of an input."""

    name: str
    desc: Any = None
    description: Any = None
    required: bool | None = None
    type: Any = None


class BaselineShape(Struct, forbid_unknown_fields=True):
    """The keys of `baseline`."""

    name: Any = None
    description: Any = None
    steps: Any = None


class VariantShape(Struct, forbid_unknown_fields=True):
    """The keys of a variant."""

    name: Any = None
    description: Any = None
    overrides: Any = None


class OverrideShape(Struct, forbid_unknown_fields=True):
    """The keys of a step that a variant may change."""

    flow: Any = None
    model: Any = None
    template: Any = None
    system: Any = None
    params: Any = None
    output_parser: Any = None
    code: Any = None
    code_file: Any = None
    target: Any = None


class CodeShape(Struct, forbid_unknown_fields=True):
    """The keys of `code_config`."""

    language: Any | UnsetType = UNSET
    code: Any | UnsetType = UNSET
    code_file: Any | UnsetType = UNSET
    timeout: Any | UnsetType = UNSET
    env_vars: Any | UnsetType = UNSET


KEYS = FileShape.__struct_fields__


class InputField(Struct, frozen=True):
    """One input of a pipeline."""

    name: str
    required: bool = True


class PipelineFile:
    """A pipeline file with its structure checked. What is wrong is in `problems`, not raised."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.yaml = load_yaml(path)
        self.problems: list[Problem] = []
        shape = convert(self.yaml.value, FileShape, self.yaml, self.problems) or FileShape()
        self.id = shape.id or path.stem
        # The id names a folder of results, so it is no path, and not the folder of runs.
        if not _FOLDER_NAME.fullmatch(self.id) or self.id == "assay":
            message = f"{self.id!r} names the folder of the results; use letters, digits, _ and -"
            self.add(("id",), message)
        self.name = shape.name or self.id
        self.default_testset = shape.default_testset
        self.inputs = self._read_inputs(shape.inputs or [])
        self.steps = self._read_steps(shape.steps or [])
        self.outputs: list[Any] = shape.outputs or []
        self.target = shape.evaluation_target
        self.variants = self._read_variants(shape.baseline or {}, shape.variants or {})
        if self.target is not None and self.target not in self.step_ids:
            self.add(("evaluation_target",), unknown("step", self.target, self.step_ids))

    @property
    def step_ids(self) -> list[str]:
        """In file order."""
        return [str(step.get("id")) for step in self.steps]

    @property
    def known_steps(self) -> frozenset[str]:
        """What a testset may call a step: its id, or the key of its output."""
        return frozenset(self.step_ids).union(map(output_key, self.steps))

    @property
    def declared(self) -> frozenset[str]:
        """The names of the pipeline's inputs."""
        return frozenset(field.name for field in self.inputs)

    def add(self, path: KeyPath, message: str, level: str = "error") -> None:
        """Note a problem at a key."""
        self.problems.append(self.yaml.problem(path, message, level))

    def variant(self, name: str) -> list[dict[str, Any]]:
        """Return every step as this variant has it, with prompts and code read from their files."""
        if name not in self.variants:
            raise UsageError(f"{self.path}: {unknown('variant', name, list(self.variants))}")
        changes = self.variants[name]
        return [self._resolve_step(step, changes.get(step["id"]) or {}) for step in self.steps]

    def _read_inputs(self, entries: list[Any]) -> list[InputField]:
        fields: list[InputField] = []
        for place, item in enumerate(entries):
            entry = {"name": item} if isinstance(item, str) else item
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                self.add(("inputs", place), "an input is a name, or {name, desc, required}")
                continue
            shape = convert(entry, InputShape, self.yaml, self.problems, ("inputs", place))
            if shape is not None:
                fields.append(InputField(shape.name, shape.required is not False))
        return fields

    def _read_steps(self, entries: list[Any]) -> list[dict[str, Any]]:
        if not entries:
            self.add(("steps",), "a pipeline needs at least one step")
        steps: list[dict[str, Any]] = []
        seen: set[str] = set()
        for place, step in enumerate(entries):
            if not isinstance(step, dict) or not isinstance(step.get("id"), str) or not step["id"]:
                self.add(("steps", place), "a step is a mapping with an id")
                continue
            if step["id"] in seen:
                self.add(("steps", place, "id"), f"there are two steps named {step['id']!r}")
                continue
            seen.add(step["id"])
            for key in step.keys() & READER_KEYS:
                self.add(("steps", place, key), f"there is no key {key!r}")
            others = [other for other in entries if isinstance(other, dict) and other is not step]
            self._check_step_names(step, place, others)
            own = {key: value for key, value in step.items() if key not in READER_KEYS}
            steps.append({**own, "type": self._step_type(step, place), "at": place})
        return steps

    def _check_step_names(self, step: dict[str, Any], place: int, others: list[dict[str, Any]]) -> None:
        """What others call this step and its output must be one thing, and readable in a path."""
        if not _STEP_ID.fullmatch(step["id"]):
            self.add(("steps", place, "id"), f"{step['id']!r} is no name; use letters, digits, _ and -")
        key = output_key(step)
        named_by = "output_key" if step.get("output_key") else "id"
        at = ("steps", place, named_by)
        if named_by == "output_key" and not _STEP_ID.fullmatch(key):
            self.add(at, f"{key!r} is no name; use letters, digits, _ and -")
        if key in _RESERVED:
            self.add(at, f"{key!r} is what the test gives; choose another name")
        taken = any(key in (other.get("id"), other.get("output_key")) for other in others)
        if named_by == "output_key" and taken:
            self.add(at, f"another step is called {key!r} or gives that; choose another name")

    def _step_type(self, step: dict[str, Any], place: int) -> str:
        """Return the step's type; without one, its keys say what it is."""
        keys = step.keys()
        if step.get("type") is not None:
            type_ = str(step["type"])
        elif keys & {"strategy", "aggregation_strategy"}:
            type_ = "aggregate"
        elif "target" in keys:
            type_ = "hop"
        elif keys & {"code", "code_file", "code_config"}:
            type_ = "code"
        else:
            type_ = "prompt"
        type_ = TYPE_ALIASES.get(type_, type_)
        if type_ not in TYPES:
            message = unknown("type of step", type_, [*TYPES, *TYPE_ALIASES])
            self.add(("steps", place, "type"), message)
        return type_

    def _read_variants(self, baseline: _Mapping, variants: _Mapping) -> dict[str, dict[str, Any]]:
        """Return every variant's changes by step; `baseline` is always one."""
        shape = convert(baseline, BaselineShape, self.yaml, self.problems, ("baseline",))
        changes = {BASELINE: self._read_overrides(shape.steps if shape else None, ("baseline", "steps"))}
        for name, variant in variants.items():
            at = ("variants", name)
            if not isinstance(variant, dict):
                self.add(at, "a variant is a mapping with overrides")
                continue
            if str(name) == ALL:
                self.add(at, f"{ALL!r} means all variants; choose another name")
            elif str(name) == BASELINE and baseline:
                self.add(at, f"{BASELINE!r} means what `baseline:` says; choose another name")
            own = convert(variant, VariantShape, self.yaml, self.problems, at)
            changes[str(name)] = self._read_overrides(own.overrides if own else None, (*at, "overrides"))
        return changes

    def _read_overrides(self, overrides: Any, at: KeyPath) -> dict[str, Any]:
        if not overrides:
            return {}
        if not isinstance(overrides, dict):
            self.add(at, "expected a mapping of steps to what changes in them")
            return {}
        changes: dict[str, Any] = {}
        for step, change in overrides.items():
            if step not in self.step_ids:
                self.add((*at, step), unknown("step", str(step), self.step_ids))
            elif not isinstance(change, dict) or not change:
                self.add((*at, step), f"expected one of {', '.join(OVERRIDES)}")
            else:
                convert(change, OverrideShape, self.yaml, self.problems, (*at, step))
                changes[step] = {key: value for key, value in change.items() if key in OVERRIDES}
        return changes

    def _resolve_step(self, step: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
        at = ("steps", step["at"])
        own = {key: value for key, value in step.items() if key not in ("description", "concurrent_group")}
        config = own.pop("code_config", None)
        if isinstance(config, dict):
            convert(config, CodeShape, self.yaml, self.problems, (*at, "code_config"))
            own |= {key: value for key, value in config.items() if key in CodeShape.__struct_fields__}
        elif config is not None:
            self.add((*at, "code_config"), f"expected a mapping, found {config!r}")
        if "flow" in change:  # another prompt replaces the step's own
            own = {key: value for key, value in own.items() if key not in ("template", "system")}
        merged = {**own, **change}
        if "model_override" in merged:
            merged.setdefault("model", merged.pop("model_override"))
        return self._read_code(self._read_flow(merged))

    def _read_flow(self, step: dict[str, Any]) -> dict[str, Any]:
        """What the step says itself wins over its flow."""
        if step["type"] != "prompt" or "flow" not in step:
            return step
        at = ("steps", step["at"], "flow")
        if not isinstance(step.get("agent"), str):
            self.add(at, "a flow is one of an agent; name it with `agent:`")
            return {**step, "template": ""}
        try:
            return {**read_flow(self.path, step["agent"], str(step["flow"])), **step}
        except InputError as error:
            for problem in error.problems:
                self.add(at, str(problem))
            return {**step, "template": ""}

    def _read_code(self, step: dict[str, Any]) -> dict[str, Any]:
        """Replace `code_file` by the code in it. The file stands beside the pipeline or in this folder."""
        name = step.pop("code_file", None)
        if "aggregation_code" in step:
            step.setdefault("code", step.pop("aggregation_code"))
        if name is None:
            return step
        at = ("steps", step["at"], "code_file")
        code = ""
        files = [folder / str(name) for folder in (self.path.parent, Path())]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            self.add(at, f"there is no file {name!r}")
            return {**step, "code": code}
        try:
            code = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.add(at, f"{file} cannot be read: {error}")
        return {**step, "code": code, "code_name": str(name)}


def output_key(step: dict[str, Any]) -> str:
    """Return the name of a step's output: its id unless it says otherwise."""
    return str(step.get("output_key") or step["id"])


def read_flow(pipeline: Path, agent: str, flow: str) -> dict[str, Any]:
    """Return what a step takes from a flow, `agents/<agent>/prompts/<flow>.yaml`.

    `agents/` is looked for beside the pipeline file and in the folders above it.
    """
    for name in (agent, flow):
        if not _AGENT_NAME.fullmatch(name) or set(name) == {"."}:
            raise InputError(Problem(str(pipeline), f"{name!r} is no name of an agent or flow"))
    folder = pipeline.resolve().parent
    homes = [above / "agents" / agent for above in [folder, *folder.parents][:_AGENT_LEVELS]]
    home = next((home for home in homes if home.is_dir()), None)
    if home is None:
        message = f"there is no folder agents/{agent} beside it or in the folders above"
        raise InputError(Problem(str(pipeline), message))
    yaml = load_yaml(_flow_file(home, flow))
    value = yaml.value
    if not isinstance(value.get("user_template"), str):
        raise InputError(Problem(yaml.where("user_template"), "a flow needs a user_template"))
    keys: dict[str, Any] = {
        "template": as_jinja(value["user_template"]),
        "defaults": value.get("defaults") or {},
    }
    if value.get("system_prompt"):
        keys["system"] = as_jinja(str(value["system_prompt"]))
    if value.get("output_parser"):
        keys["output_parser"] = value["output_parser"]
    return keys


def _flow_file(home: Path, flow: str) -> Path:
    """`prompts/<flow>.yaml`, unless the agent's own file says that the flow stands elsewhere."""
    agent_file = home / "agent.yaml"
    entries = load_yaml(agent_file).value.get("flows") if agent_file.is_file() else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == flow and isinstance(entry.get("file"), str):
            return home / "prompts" / Path(entry["file"]).name
    return home / "prompts" / f"{flow}.yaml"


def as_jinja(text: str) -> str:
    """Turn a template of `{name}` into Jinja. `{{` and `}}` are braces, unless they hold just a name."""
    if "{%" in text:
        return _FLOW_FIELD_IN_JINJA.sub(r"{{ \1 }}", text)

    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return "{{ " + name + " }}" if name else "{{ '" + match[0][0] + "' }}"

    return _FLOW_FIELD.sub(replace, text)
