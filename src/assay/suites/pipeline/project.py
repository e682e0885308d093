"""The folders of a Prompt Lab project: pipelines, agents with their flows and rules, and testsets.

    pipelines/<id>.yaml
    agents/<id>/agent.yaml            flows, default_testset, evaluation.rules
    agents/<id>/prompts/<flow>.yaml   one version of the agent's prompt
    agents/<id>/testsets/*.jsonl, testsets/*.jsonl, data/pipelines/<id>/testsets/*.jsonl

`find_pipeline` and `find_testset` look for files by the names that Prompt Lab's commands take. `agent_pipeline` makes a
pipeline of one step of an agent, with a variant for each flow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, Problem, UsageError, similar_names, unknown
from assay.files.schema import KeyPath
from assay.files.yaml_files import YAML_SUFFIXES, YamlFile, load_yaml

AGENT_STEP = "output"
"""The only step of an agent's pipeline. Prompt Lab names the column of its replies so."""

# The number of folders, from a file's own folder upwards, in which `agents/` is looked for.
_LEVELS = 6
_NAME = re.compile(r"[\w.-]+")


def find_pipeline(name: str) -> Path:
    """Return the file of a pipeline: a path, or the id of a pipeline in the folder `pipelines`."""
    path = Path(name)
    if path.exists() or path.suffix in YAML_SUFFIXES or not Path("pipelines").is_dir():
        return path
    files = [file for file in sorted(Path("pipelines").iterdir()) if file.suffix in YAML_SUFFIXES]
    by_id = {file.stem: file for file in files}
    if name not in by_id:
        for file in files:
            try:
                by_id.setdefault(str(load_yaml(file).value.get("id")), file)
            except InputError:
                continue  # a broken file is reported when it is named
    if name not in by_id:
        raise UsageError(f"pipelines/: {unknown('pipeline', name, list(by_id))}")
    return by_id[name]


def find_testset(name: str, path: Path, pipeline: str) -> str:
    """Return the path of a testset of the pipeline or agent at `path`, else the name as it is.

    `pipeline` is the id of the pipeline or agent.
    """
    return next((str(folder / name) for folder in _testset_folders(path, pipeline) if (folder / name).exists()), name)


def missing_testset(name: str, path: Path, pipeline: str) -> str:
    """Return the message for a testset that `find_testset` does not find, with similar names; empty if it exists."""
    if Path(find_testset(name, path, pipeline)).exists():
        return ""
    wanted = Path(name)
    folders = [folder / wanted.parent for folder in _testset_folders(path, pipeline)]
    # Without the ending, which would make all names of files similar.
    stems = {file.stem for folder in folders for file in folder.glob(f"*{wanted.suffix}") if file.is_file()}
    near = [stem + wanted.suffix for stem in similar_names(wanted.stem, sorted(stems))]
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"there is no testset {name!r}{hint}"


def _testset_folders(path: Path, pipeline: str) -> Iterator[Path]:
    """Yield the folders with testsets: those beside the file, those of Prompt Lab's `data`, the working directory."""
    beside = path.parent
    yield from (beside, beside / "testsets", beside.parent / "testsets")
    # `pipelines/x.yaml` and `agents/x/agent.yaml`
    for kind, project in (("pipelines", beside.parent), ("agents", beside.parent.parent)):
        data = project / "data"
        yield from (data / kind / pipeline / "testsets", data / "testsets" / pipeline, data)
    yield Path()


def pipeline_folders(testset: Path) -> list[Path]:
    """Return the folders in which the pipeline of a testset may be: the other way round than `find_testset` looks."""
    folder = testset.resolve().parent
    folders = [folder]
    for above in [folder, *folder.parents]:
        if above.name == "testsets":
            folders += [above.parent, above.parent / "pipelines"]
        if above.name == "data":  # data/pipelines/ID/testsets, data/testsets/ID, data
            folders.append(above.parent / "pipelines")
    return list(dict.fromkeys(folders))


def agent_home(folder: Path, agent: str, flow: str = "", where: str = "") -> Path:
    """Return the folder of an agent. The folder `agents` is in `folder` or in one above it.

    Raises InputError, with the file `where` that names the agent.
    """
    for name in filter(None, (agent, flow)):
        if not _NAME.fullmatch(name) or set(name) == {"."}:
            # The names become parts of a path, so they must not lead out of the folder.
            raise InputError(Problem(where, f"{name!r} is not a valid name of an agent or flow"))
    homes = [above / "agents" / agent for above in [folder, *folder.parents][:_LEVELS]]
    home = next((home for home in homes if home.is_dir()), None)
    if home is None:
        message = f"there is no folder agents/{agent} in this file's folder or the folders above it"
        raise InputError(Problem(where, message))
    return home


class Agent:
    """An agent of Prompt Lab. `agent.yaml` may be missing: then the files in `prompts/` are its flows."""

    def __init__(self, home: Path) -> None:
        self.home = home
        path = home / "agent.yaml"
        self.yaml = load_yaml(path) if path.is_file() else YamlFile(path, {}, {})

    def flow_file(self, flow: str) -> Path:
        """Return the file of a flow: the one that `agent.yaml` lists for it, else `prompts/<flow>.yaml`."""
        return self.home / "prompts" / self._listed().get(flow, f"{flow}.yaml")

    def flows(self) -> list[str]:
        """Return the names of the flows in the order of `agent.yaml`, else of the files in `prompts/`."""
        return list(self._listed()) or sorted(file.stem for file in (self.home / "prompts").glob("*.yaml"))

    def rules(self) -> list[Any]:
        """Return `evaluation.rules`. They are checked by whoever uses them."""
        rules = self._mapping("evaluation").get("rules")
        return rules if isinstance(rules, list) else []

    def judge_agent_keys(self) -> str:
        """Name the keys of `agent.yaml` that only Prompt Lab's judge agent uses. Empty if there is none."""
        keys = [
            f"expectations.{key}" for key in ("must_have", "nice_to_have") if self._mapping("expectations").get(key)
        ]
        keys += ["evaluation.judge_agent_id"] if self._mapping("evaluation").get("judge_agent_id") else []
        return f"{', '.join(keys)} of {self.yaml.path}" if keys else ""

    def _mapping(self, key: str) -> dict[str, Any]:
        value = self.yaml.value.get(key)
        return value if isinstance(value, dict) else {}

    def _listed(self) -> dict[str, str]:
        """Return the files of `flows` by name. Only the file's name counts: flows are in `prompts/`."""
        entries = self.yaml.value.get("flows")
        listed: dict[str, str] = {}
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                listed[entry["name"]] = Path(str(entry.get("file") or f"{entry['name']}.yaml")).name
        return listed


def is_agent(path: Path) -> bool:
    """Return whether a file is the description of an agent: `agents/NAME/agent.yaml`, or YAML with a list of flows."""
    if path.name == "agent.yaml" and path.resolve().parent.parent.name == "agents":
        return path.is_file()
    return isinstance(yaml_keys(path).get("flows"), list)


def is_flow(path: Path) -> bool:
    """Return whether a file is a flow: YAML with a `user_template`."""
    return "user_template" in yaml_keys(path)


def yaml_keys(path: Path) -> dict[str, Any]:
    """Return the mapping of a YAML file. Empty for any other file, and for YAML that cannot be read."""
    if path.suffix not in YAML_SUFFIXES or not path.is_file():
        return {}
    try:
        return load_yaml(path).value
    except InputError:
        return {}


def agent_pipeline(name: str) -> YamlFile:
    """Return the pipeline of an agent in the working directory: one step, and a variant for each flow.

    Its lines are those of `agent.yaml`. Raises UsageError for an unknown agent, and for one without flows.
    """
    agents = Path("agents")
    known = [home.name for home in sorted(agents.iterdir()) if home.is_dir()] if agents.is_dir() else []
    if name not in known:
        raise UsageError(f"agents/: {unknown('agent', name, known)}")
    agent = Agent(agents / name)
    flows = agent.flows()
    if not flows:
        raise UsageError(f"{agent.home}: the agent has no flow; write one to {agent.home}/prompts/v1.yaml")
    value = {
        "id": name,
        "name": agent.yaml.value.get("name"),
        "default_testset": agent.yaml.value.get("default_testset"),
        "steps": [{"id": AGENT_STEP, "agent": name, "flow": agent.yaml.value.get("baseline_flow") or flows[0]}],
        "variants": {flow: {"overrides": {AGENT_STEP: {"flow": flow}}} for flow in flows},
    }
    lines: dict[KeyPath, int] = {("steps",): agent.yaml.lines.get(("flows",), 1)}
    return YamlFile(agent.yaml.path, value, {**agent.yaml.lines, **lines})
