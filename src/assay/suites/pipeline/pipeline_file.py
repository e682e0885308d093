"""Reads a pipeline file: inputs, steps, outputs and variants, and prompts in Prompt Lab's folders (flows).

    file = PipelineFile(Path("sentiment.yaml"))
    steps = file.variant("short")       # the steps with this variant's overrides, prompts and code
    refuse(file.problems, file.path)    # raises InputError with all problems of the file

Steps are plain mappings here, because a variant overrides single keys. `builder.py` builds runnable steps.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from assay.core.errors import InputError, Problem, UsageError, unknown
from assay.files.paths import MAX_NAME_BYTES, can_exist
from assay.files.schema import KeyPath, convert
from assay.files.yaml_files import YamlFile, load_yaml
from assay.suites.pipeline.project import Agent, agent_home, find_testset, missing_testset

BASELINE = "baseline"
ALL = "all"
"""Stands for every variant on the command line."""
TYPES = ("prompt", "code", "aggregate", "hop")
OVERRIDES = (
    "flow",
    "model",
    "template",
    "system",
    "params",
    "output_parser",
    "code",
    "code_file",
    "language",
    "target",
)
READER_KEYS = frozenset({"at", "code_name"})
"""Keys that the reader adds to a step: its position in the file, and the name of its code for tracebacks.

A file must not have these keys. They are part of the run's identity: renaming one starts every run anew.
"""

# Prompt Lab's names of the step types.
TYPE_ALIASES = {
    "agent_flow": "prompt",
    "code_node": "code",
    "batch_aggregator": "aggregate",
    "hoplet": "hop",
}
_FOLDER_NAME = re.compile(r"\w[\w.-]*")
_STEP_ID = re.compile(r"[\w-]+")
# Names in templates and mappings that hold values of the test. No output may have such a name.
_RESERVED = ("inputs", "batch_items", "item")
# Flows use str.format templates: `{name}` is a field, `{{` and `}}` are braces. Some use Jinja, so `{{ name }}`
# is accepted as a field too.
_FLOW_FIELD = re.compile(r"\{\{\s*(\w+)\s*\}\}|\{\{|\}\}|\{(\w+)\}")
_FLOW_FIELD_IN_JINJA = re.compile(r"(?<![{%])\{(\w+)\}(?!\})")

_JAVASCRIPT_FILES = (".js", ".cjs")

_Mapping = dict[Any, Any]


class FileShape(Struct, forbid_unknown_fields=True):
    """The keys of a pipeline file."""

    id: str | None = None
    name: str | None = None
    description: Any = None
    version: Any = None
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
    language: Any = None
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
    """A pipeline file with its structure checked. Problems are collected in `problems`, not raised.

    `yaml` has the content of a pipeline that is not in a file of its own, see `agent_pipeline`.
    """

    def __init__(self, path: Path, yaml: YamlFile | None = None) -> None:
        self.path = path
        self.yaml = yaml or load_yaml(path)
        self.problems: list[Problem] = []
        shape = convert(self.yaml.value, FileShape, self.yaml, self.problems) or FileShape()
        self.id = shape.id or path.stem
        # The id is the name of the results folder. `assay` is the name of the folder with all runs.
        if not _FOLDER_NAME.fullmatch(self.id) or self.id == "assay":
            message = f"{self.id!r} cannot be the name of the results folder; use letters, digits, _ and -"
            self.add(("id",), message)
        elif not can_exist(self.id):
            self.add(("id",), f"the results folder has this name, which may have {MAX_NAME_BYTES} bytes at most")
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
        """The ids of the steps in file order."""
        return [str(step.get("id")) for step in self.steps]

    @property
    def known_steps(self) -> frozenset[str]:
        """The names by which a testset may refer to a step: its id and its output key."""
        return frozenset(self.step_ids).union(map(output_key, self.steps))

    @property
    def declared(self) -> frozenset[str]:
        """The names of the pipeline's inputs."""
        return frozenset(field.name for field in self.inputs)

    def add(self, path: KeyPath, message: str, level: str = "error") -> None:
        """Add a problem. `path` is the key path of the wrong value, such as `("steps", 0, "template")`."""
        self.problems.append(self.yaml.problem(path, message, level))

    def variant(self, name: str) -> list[dict[str, Any]]:
        """Return every step with this variant's overrides, with prompts and code read from their files."""
        if name not in self.variants:
            raise UsageError(f"{self.path}: {unknown('variant', name, list(self.variants))}")
        changes = self.variants[name]
        return [self._resolve_step(step, changes.get(step["id"]) or {}) for step in self.steps]

    def _read_inputs(self, entries: list[Any]) -> list[InputField]:
        fields: list[InputField] = []
        for position, item in enumerate(entries):
            entry = {"name": item} if isinstance(item, str) else item
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                self.add(("inputs", position), "an input is a name, or {name, desc, required}")
                continue
            shape = convert(entry, InputShape, self.yaml, self.problems, ("inputs", position))
            if shape is not None:
                fields.append(InputField(shape.name, shape.required is not False))
        return fields

    def _read_steps(self, entries: list[Any]) -> list[dict[str, Any]]:
        if not entries:
            self.add(("steps",), "a pipeline needs at least one step")
        steps: list[dict[str, Any]] = []
        seen: set[str] = set()
        for position, step in enumerate(entries):
            if not isinstance(step, dict) or not isinstance(step.get("id"), str) or not step["id"]:
                self.add(("steps", position), "a step is a mapping with an id")
                continue
            if step["id"] in seen:
                self.add(("steps", position, "id"), f"there are two steps named {step['id']!r}")
                continue
            seen.add(step["id"])
            for key in step.keys() & READER_KEYS:
                self.add(("steps", position, key), f"there is no key {key!r}")
            others = [other for other in entries if isinstance(other, dict) and other is not step]
            self._check_step_names(step, position, others)
            file_keys = {key: value for key, value in step.items() if key not in READER_KEYS}
            steps.append({**file_keys, "type": self._step_type(step, position), "at": position})
        return steps

    def _check_step_names(self, step: dict[str, Any], position: int, others: list[dict[str, Any]]) -> None:
        """Check that the step's id and output key are valid in paths and that no other step has the same."""
        if not _STEP_ID.fullmatch(step["id"]):
            message = f"{step['id']!r} is not a valid id; use letters, digits, _ and -"
            self.add(("steps", position, "id"), message)
        key = output_key(step)
        key_source = "output_key" if step.get("output_key") else "id"
        key_path = ("steps", position, key_source)
        if key_source == "output_key" and not _STEP_ID.fullmatch(key):
            self.add(key_path, f"{key!r} is not a valid output_key; use letters, digits, _ and -")
        if key in _RESERVED:
            self.add(key_path, f"{key!r} is reserved for values of the test; choose another name")
        is_taken = any(key in (other.get("id"), other.get("output_key")) for other in others)
        if key_source == "output_key" and is_taken:
            self.add(key_path, f"another step has the id or output_key {key!r}; choose another name")

    def _step_type(self, step: dict[str, Any], position: int) -> str:
        """Return the step's type. A step without `type` is recognised by its keys."""
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
            self.add(("steps", position, "type"), message)
        return type_

    def _read_variants(self, baseline: _Mapping, variants: _Mapping) -> dict[str, dict[str, Any]]:
        """Return the overrides of every variant, by step. The variant `baseline` always exists."""
        shape = convert(baseline, BaselineShape, self.yaml, self.problems, ("baseline",))
        changes = {BASELINE: self._read_overrides(shape.steps if shape else None, ("baseline", "steps"))}
        for name, variant in variants.items():
            key_path = ("variants", name)
            if not isinstance(variant, dict):
                self.add(key_path, "a variant is a mapping with overrides")
                continue
            if str(name) == ALL:
                self.add(key_path, f"{ALL!r} means all variants; choose another name")
            elif str(name) == BASELINE and baseline:
                self.add(key_path, f"{BASELINE!r} is defined by `baseline:`; choose another name")
            variant_shape = convert(variant, VariantShape, self.yaml, self.problems, key_path)
            overrides = variant_shape.overrides if variant_shape else None
            changes[str(name)] = self._read_overrides(overrides, (*key_path, "overrides"))
        return changes

    def _read_overrides(self, overrides: Any, key_path: KeyPath) -> dict[str, Any]:
        if not overrides:
            return {}
        if not isinstance(overrides, dict):
            self.add(key_path, "expected a mapping from step ids to the keys to override")
            return {}
        changes: dict[str, Any] = {}
        for step, change in overrides.items():
            if step not in self.step_ids:
                self.add((*key_path, step), unknown("step", str(step), self.step_ids))
            elif not isinstance(change, dict) or not change:
                self.add((*key_path, step), f"expected one of {', '.join(OVERRIDES)}")
            else:
                convert(change, OverrideShape, self.yaml, self.problems, (*key_path, step))
                changes[step] = {key: value for key, value in change.items() if key in OVERRIDES}
        return changes

    def _resolve_step(self, step: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
        key_path = ("steps", step["at"])
        # These two keys of Prompt Lab have no effect, so they are kept out of the run's identity.
        keys = {key: value for key, value in step.items() if key not in ("description", "concurrent_group")}
        config = keys.pop("code_config", None)
        if isinstance(config, dict):
            convert(config, CodeShape, self.yaml, self.problems, (*key_path, "code_config"))
            keys |= {key: value for key, value in config.items() if key in CodeShape.__struct_fields__}
        elif config is not None:
            self.add((*key_path, "code_config"), f"expected a mapping, found {config!r}")
        # Keys of a step win over those of its flow. A flow of the variant must replace the step's prompt.
        if "flow" in change:
            keys = {key: value for key, value in keys.items() if key not in ("template", "system")}
        merged = {**keys, **change}
        # Prompt Lab's name for `model`.
        if "model_override" in merged:
            merged.setdefault("model", merged.pop("model_override"))
        return self._read_code(self._read_flow(merged))

    def _read_flow(self, step: dict[str, Any]) -> dict[str, Any]:
        """Add the keys of the step's flow. Keys of the step itself win."""
        if step["type"] != "prompt" or "flow" not in step:
            return step
        key_path = ("steps", step["at"], "flow")
        if not isinstance(step.get("agent"), str):
            self.add(key_path, "a flow needs the name of its agent; add `agent: NAME`")
            return {**step, "template": ""}
        try:
            return {**read_flow(self.path, step["agent"], str(step["flow"])), **step}
        except InputError as error:
            for problem in error.problems:
                self.add(key_path, str(problem))
            return {**step, "template": ""}

    def _read_code(self, step: dict[str, Any]) -> dict[str, Any]:
        """Replace `code_file` by the file's content. Its path is relative to the pipeline, or to the project.

        A file `.js` without a `language` is JavaScript.
        """
        name = step.pop("code_file", None)
        if "aggregation_code" in step:
            step.setdefault("code", step.pop("aggregation_code"))
        if name is None:
            return step
        key_path = ("steps", step["at"], "code_file")
        if Path(str(name)).suffix in _JAVASCRIPT_FILES:
            step.setdefault("language", "javascript")
        # Stands for code that cannot be read, so that this is its only problem.
        code = "function main() {}" if step.get("language") == "javascript" else "def main(): ..."
        file = self.find_code_file(name)
        if file is None:
            self.add(key_path, f"there is no file {name!r}")
            return {**step, "code": code}
        try:
            code = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.add(key_path, f"{file} cannot be read: {error}")
        return {**step, "code": code, "code_name": str(name)}

    def find_code_file(self, name: Any) -> Path | None:
        """Return the file that a `code_file` names; None if there is none."""
        # Prompt Lab's paths are relative to the project, the folder above `pipelines`.
        files = [folder / str(name) for folder in (self.path.parent, Path(), self.path.parent.parent)]
        return next((file for file in files if can_exist(file) and file.is_file()), None)


def output_key(step: dict[str, Any]) -> str:
    """Return the name of a step's output: its `output_key`, else its id."""
    return str(step.get("output_key") or step["id"])


def read_flow(pipeline: Path, agent: str, flow: str) -> dict[str, Any]:
    """Return the step keys that a flow defines: template, system, defaults, output_parser.

    The flow is the file `agents/<agent>/prompts/<flow>.yaml`. The folder `agents` is in the pipeline file's
    folder or in one above it.
    """
    home = agent_home(pipeline.resolve().parent, agent, flow, where=str(pipeline))
    return flow_keys(Agent(home).flow_file(flow))


def flow_keys(path: Path) -> dict[str, Any]:
    """Return the step keys of a flow's file. Raises InputError if it has no template."""
    yaml = load_yaml(path)
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


def default_testset(file: PipelineFile) -> str:
    """Return the path of the pipeline's `default_testset`, in its folder or in a folder of testsets."""
    name = file.default_testset
    if name is None:
        raise UsageError(f"{file.path} has no default_testset; pass --testset")
    if message := missing_testset(name, file.path, file.id):
        raise UsageError(f"{file.yaml.where('default_testset')}: {message}")
    return find_testset(name, file.path, file.id)


def as_jinja(text: str) -> str:
    """Convert a str.format template to Jinja: `{name}` becomes `{{ name }}`, `{{` becomes a literal brace.

    `{{ name }}` is kept. A text with `{%` is a Jinja template already; only `{name}` is converted in it.
    """
    if "{%" in text:
        return _FLOW_FIELD_IN_JINJA.sub(r"{{ \1 }}", text)

    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return "{{ " + name + " }}" if name else "{{ '" + match[0][0] + "' }}"

    return _FLOW_FIELD.sub(replace, text)
