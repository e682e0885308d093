"""Prompt Lab's own prompts: `agents/<agent>/prompts/<flow>.yaml`, with `{name}` for a value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, Problem
from assay.core.yamlfile import YamlFile, load_yaml

_LEVELS = 6
_SAFE = re.compile(r"[\w.-]+")
_FIELD = re.compile(r"\{\{\s*(\w+)\s*\}\}|\{\{|\}\}|\{(\w+)\}")
_IN_JINJA = re.compile(r"(?<![{%])\{(\w+)\}(?!\})")


class Flow:
    """A version of a prompt: what a step takes from it where it says nothing itself."""

    def __init__(self, yaml: YamlFile) -> None:
        value = yaml.value
        if not isinstance(value.get("user_template"), str):
            raise InputError(Problem(yaml.where("user_template"), "a flow needs a user_template"))
        self.path = yaml.path
        self.values: dict[str, Any] = {
            "template": as_jinja(value["user_template"]),
            "defaults": value.get("defaults") or {},
        }
        if value.get("system_prompt"):
            self.values["system"] = as_jinja(str(value["system_prompt"]))
        if value.get("output_parser"):
            self.values["output_parser"] = value["output_parser"]


def find_flow(beside: Path, agent: str, flow: str) -> Flow:
    """The flow of an agent, looked for in `agents/` beside the pipeline file and in the folders above."""
    for name in (agent, flow):
        if not _SAFE.fullmatch(name) or set(name) == {"."}:
            raise InputError(Problem(str(beside), f"{name!r} is no name of an agent or flow"))
    folders = [beside.resolve().parent, *beside.resolve().parent.parents][:_LEVELS]
    tried = [folder / "agents" / agent for folder in folders]
    home = next((folder for folder in tried if folder.is_dir()), None)
    if home is None:
        raise InputError(
            Problem(str(beside), f"there is no folder agents/{agent} beside it or in the folders above")
        )
    return Flow(load_yaml(_file(home, flow)))


def _file(home: Path, flow: str) -> Path:
    """`prompts/<flow>.yaml`, unless the agent's own file says that the flow stands elsewhere."""
    named = home / "agent.yaml"
    told = load_yaml(named).value.get("flows") if named.is_file() else None
    for entry in told if isinstance(told, list) else []:
        if isinstance(entry, dict) and entry.get("name") == flow and isinstance(entry.get("file"), str):
            return home / "prompts" / Path(entry["file"]).name
    return home / "prompts" / f"{flow}.yaml"


def as_jinja(text: str) -> str:
    """A template of `{name}` in ours. `{{` and `}}` are braces, unless they hold just a name."""
    if "{%" in text:
        return _IN_JINJA.sub(r"{{ \1 }}", text)
    return _FIELD.sub(_replaced, text)


def _replaced(match: re.Match[str]) -> str:
    name = match[1] or match[2]
    if name:
        return "{{ " + name + " }}"
    return "{{ '" + match[0][0] + "' }}"
