"""Task files: reads YAML with its includes, checks every key, and fills in what the harness would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem, UsageError
from assay.core.registry import unknown
from assay.core.yamlfile import FunctionRef, YamlFile, load_yaml

# Every key of the harness's TaskConfig, in its order: results files list the configuration in it.
KEYS = [
    "task",
    "task_alias",
    "tag",
    "custom_dataset",
    "dataset_path",
    "dataset_name",
    "dataset_kwargs",
    "training_split",
    "validation_split",
    "test_split",
    "fewshot_split",
    "process_docs",
    "doc_to_text",
    "doc_to_target",
    "doc_to_image",
    "doc_to_audio",
    "unsafe_code",
    "doc_to_choice",
    "process_results",
    "use_prompt",
    "description",
    "target_delimiter",
    "fewshot_delimiter",
    "fewshot_config",
    "num_fewshot",
    "metric_list",
    "output_type",
    "generation_kwargs",
    "repeats",
    "filter_list",
    "should_decontaminate",
    "doc_to_decontamination_query",
    "gen_prefix",
    "metadata",
]
_DEFAULTS = {
    "unsafe_code": False,
    "description": "",
    "target_delimiter": " ",
    "fewshot_delimiter": "\n\n",
    "output_type": "generate_until",
    "repeats": 1,
    "should_decontaminate": False,
}
_FEWSHOT_KEYS = [
    "sampler",
    "split",
    "process_docs",
    "fewshot_indices",
    "samples",
    "doc_to_text",
    "doc_to_choice",
    "doc_to_target",
    "gen_prefix",
    "fewshot_delimiter",
    "target_delimiter",
]
_LATER = (
    "custom_dataset",
    "process_docs",
    "doc_to_image",
    "doc_to_audio",
    "doc_to_choice",
    "process_results",
    "use_prompt",
)
_TYPES: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "task_alias": (str,),
    "dataset_path": (str,),
    "dataset_kwargs": (dict,),
    "doc_to_text": (str,),
    "doc_to_target": (str, int, list),
    "description": (str,),
    "target_delimiter": (str,),
    "fewshot_delimiter": (str,),
    "fewshot_config": (dict,),
    "num_fewshot": (int,),
    "metric_list": (list,),
    "output_type": (str,),
    "generation_kwargs": (dict,),
    "repeats": (int,),
    "filter_list": (list,),
    "gen_prefix": (str,),
    "metadata": (dict,),
}
_GROUP_KEYS = ("group", "task_list", "aggregate_metric_list", "group_alias")


class TaskConfig(Struct, frozen=True):
    """A task file with its includes merged and defaults filled in. `files` are it and what it includes."""

    path: Path
    values: dict[str, Any]
    origins: dict[str, YamlFile]
    files: list[YamlFile]

    @property
    def name(self) -> str:
        """The task's name."""
        return str(self.values["task"])

    def where(self, key: str, *below: str | int) -> str:
        """`file:line key` of a setting, in whichever file has it."""
        origin = self.origins.get(key, self.files[0])
        path = ".".join(map(str, (key, *below)))
        return f"{origin.where(key, *below)} {path}"


def read_task(path: Path) -> TaskConfig:
    """The task in this file, or InputError with every problem."""
    files: list[YamlFile] = []
    values, origins = _merged(path, files, ())
    config = TaskConfig(path, values, origins, files)
    if problems := list(_problems(config)):
        raise InputError(problems)
    _fill(config.values)
    return config


def _merged(
    path: Path, files: list[YamlFile], above: tuple[Path, ...]
) -> tuple[dict[str, Any], dict[str, YamlFile]]:
    file = load_yaml(path)
    files.append(file)
    if path.resolve() in above:
        raise InputError(Problem(str(path), "this file includes itself"))
    values: dict[str, Any] = {}
    origins: dict[str, YamlFile] = {}
    includes = file.value.get("include") or []
    for name in includes if isinstance(includes, list) else [includes]:
        included = path.parent / str(name)
        if not included.is_file():
            raise InputError(Problem(file.where("include"), f"there is no file {str(name)!r} to include"))
        more, places = _merged(included, files, (*above, path.resolve()))
        values.update(more)
        origins.update(places)
    own = {key: value for key, value in file.value.items() if key != "include"}
    return values | own, origins | dict.fromkeys(own, file)


def _problems(config: TaskConfig) -> list[Problem]:
    values = config.values
    if any(key in values for key in _GROUP_KEYS):
        return [
            Problem(config.where("group"), "this is a group of tasks; name its tasks, groups are not run yet")
        ]
    found = [
        Problem(config.where(key), unknown("task key", str(key), KEYS)) for key in values if key not in KEYS
    ]
    found += [
        Problem(config.files[0].where(), f"the key {key!r} is missing")
        for key in ("task", "dataset_path", "doc_to_text", "doc_to_target")
        if values.get(key) is None
    ]
    found += [
        Problem(config.where(key), f"expected {_kinds(kinds)}, found {values[key]!r}")
        for key, kinds in _TYPES.items()
        if values.get(key) is not None and not isinstance(values[key], (*kinds, FunctionRef))
    ]
    found += _not_yet(config)
    if isinstance(fewshot := values.get("fewshot_config"), dict):
        found += [
            Problem(config.where("fewshot_config", key), unknown("key", str(key), _FEWSHOT_KEYS))
            for key in fewshot
            if key not in _FEWSHOT_KEYS
        ]
    found += _generation_problems(config)
    if isinstance(repeats := values.get("repeats", 1), int) and repeats < 1:
        found.append(Problem(config.where("repeats"), f"expected at least 1, found {repeats}"))
    return found


def _generation_problems(config: TaskConfig) -> list[Problem]:
    generation = config.values.get("generation_kwargs")
    if not isinstance(generation, dict):
        return []
    found = []
    until = generation.get("until", [])
    stops = until if isinstance(until, list) else [until]
    if not all(isinstance(stop, str) for stop in stops):
        where = config.where("generation_kwargs", "until")
        found.append(Problem(where, f"expected text or a list of texts, found {until!r}"))
    if "temperature" in generation and not isinstance(generation["temperature"], (int, float)):
        where = config.where("generation_kwargs", "temperature")
        found.append(Problem(where, f"expected a number, found {generation['temperature']!r}"))
    samples = (
        (config.values.get("fewshot_config") or {})
        if isinstance(config.values.get("fewshot_config"), dict)
        else {}
    )
    if not all(isinstance(sample, dict) for sample in samples.get("samples") or ()):
        found.append(Problem(config.where("fewshot_config", "samples"), "expected a list of documents"))
    return found


def _not_yet(config: TaskConfig) -> list[Problem]:
    """What the harness has and this version does not: said, never skipped."""
    values = config.values
    found = [
        Problem(config.where(key), f"{key!r} is not supported yet")
        for key in _LATER
        if values.get(key) is not None
    ]
    output = values.get("output_type", "generate_until")
    if output != "generate_until":
        found.append(
            Problem(config.where("output_type"), f"{output!r} is not supported yet; generate_until is")
        )
    found += [
        Problem(config.where(*place), f"!function {name} is not supported yet")
        for place, name in _functions(values)
    ]
    return found


def _functions(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], str]]:
    if isinstance(value, FunctionRef):
        return [(at, value.name)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in _functions(item, (*at, key))]


def _kinds(kinds: tuple[type, ...]) -> str:
    names = {str: "text", int: "a whole number", list: "a list", dict: "a mapping"}
    return " or ".join(names[kind] for kind in kinds)


def _fill(values: dict[str, Any]) -> None:
    """Defaults as the harness fills them in: results files show them."""
    for key, default in _DEFAULTS.items():
        if values.get(key) is None:
            values[key] = default
    delimiter = values["fewshot_delimiter"]
    generation = values.get("generation_kwargs")
    if generation is None:
        generation = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": [delimiter]}
    elif "until" not in generation:
        generation = {**generation, "until": [delimiter]}
    if "temperature" in generation:
        generation = {**generation, "temperature": float(generation["temperature"])}
    values["generation_kwargs"] = generation
    values["num_fewshot"] = values.get("num_fewshot") or 0
    values["fewshot_config"] = _fewshot(values)


def _fewshot(values: dict[str, Any]) -> dict[str, Any]:
    """The few-shot settings with what they inherit from the task."""
    inherited = {key: values.get(key) for key in _FEWSHOT_KEYS if key in KEYS}
    full = (
        dict.fromkeys(_FEWSHOT_KEYS)
        | inherited
        | {"sampler": "default", "split": values.get("fewshot_split")}
    )
    return full | (values.get("fewshot_config") or {})


def find_task(name: str, include: list[str]) -> Path:
    """A YAML file by path, or by the name it gives its task in one of the folders."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise UsageError(f"there is no task file {name!r}")
        return path
    known: dict[str, Path] = {}
    for folder in include:
        if not Path(folder).is_dir():
            raise UsageError(f"--include-path {folder!r} is not a folder")
        known |= tasks_below(Path(folder))
    if name in known:
        return known[name]
    if not include:
        raise UsageError(f"{name!r} is no YAML file; name the folder it is in with --include-path")
    raise UsageError(unknown("task", name, sorted(known)))


def tasks_below(folder: Path) -> dict[str, Path]:
    """Task names and their files. A file that cannot be read is nobody's task: naming it by path says why."""
    found = {}
    for path in sorted(folder.rglob("*.y*ml")):
        try:
            name = load_yaml(path).value.get("task")
        except InputError:
            continue
        if isinstance(name, str):
            found[name] = path
    return found
