"""One task's configuration: every key checked, and what the harness would fill in filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem
from assay.core.registry import unknown
from assay.core.yamlfile import FunctionRef, YamlFile
from assay.suites.task import functions
from assay.suites.task.files import Origin, Settings

GENERATE, CHOICE, LIKELIHOOD, ROLLING = (
    "generate_until",
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
)
OUTPUT_TYPES = (LIKELIHOOD, CHOICE, ROLLING, GENERATE)
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
    "output_type": GENERATE,
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
_TYPES: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "task_alias": (str,),
    "tag": (str, list),
    "dataset_path": (str,),
    "dataset_name": (str,),
    "dataset_kwargs": (dict,),
    "doc_to_text": (str, int),
    "doc_to_target": (str, int, list),
    "doc_to_choice": (str, list, dict),
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
_FUNCTIONS = frozenset(
    {
        "custom_dataset",
        "process_docs",
        "doc_to_text",
        "doc_to_target",
        "doc_to_choice",
        "process_results",
        "doc_to_decontamination_query",
        "doc_to_image",
        "doc_to_audio",
        "fewshot_config.process_docs",
        "fewshot_config.samples",
        "fewshot_config.doc_to_text",
        "fewshot_config.doc_to_target",
        "fewshot_config.doc_to_choice",
        "filter_list.filter.function",
        "filter_list.filter.filter_fn",
        "metric_list.metric",
        "metric_list.aggregation",
    }
)
_NEVER = {
    "doc_to_image": "models that see images are not run",
    "doc_to_audio": "models that hear are not run",
    "use_prompt": "promptsource templates are not read; write doc_to_text and doc_to_target",
}
_STRUCTURE = ("group", "task_list", "class", "recipe")


class TaskConfig(Struct, frozen=True):
    """A task file with its includes merged and defaults filled in. `files` are it and what it includes."""

    path: Path
    values: dict[str, Any]
    origins: dict[str, Origin]
    files: list[YamlFile]
    source: str

    @property
    def name(self) -> str:
        """The task's name."""
        return str(self.values["task"])

    @property
    def output(self) -> str:
        """What is asked of the model: one of OUTPUT_TYPES."""
        return str(self.values["output_type"])

    def where(self, key: str, *below: str | int) -> str:
        """`file:line key` of a setting, in whichever file has it."""
        origin = self.origins.get(key) or Origin(self.files[0])
        path = ".".join(map(str, (key, *below)))
        return f"{origin.where(key, *below)} {path}"

    def function(self, key: str, *below: str | int) -> Any:
        """A setting, imported if it is a `!function`."""
        value = self.values.get(key)
        for step in below:
            value = value[step] if isinstance(value, list) or step in (value or {}) else None  # type: ignore[index]
        return functions.resolve(value, self.where(key, *below)) if isinstance(value, FunctionRef) else value


def task_config(settings: Settings, path: Path, source: str | None = None) -> TaskConfig:
    """The task these settings describe, or InputError with every problem."""
    values = {key: value for key, value in settings.values.items() if key not in ("task_list", "group")}
    config = TaskConfig(path, values, settings.origins, settings.files, source or str(path))
    if problems := list(_problems(config)):
        raise InputError(problems)
    _fill(values)
    return config


def _problems(config: TaskConfig) -> Iterator[Problem]:
    values = config.values
    if "class" in values:
        yield Problem(config.where("class"), "tasks written as a Python class are not run; YAML tasks are")
        return
    yield from _key_problems(config)
    yield from _function_problems(config)
    yield from _output_problems(config)
    yield from generation_problems(
        values.get("generation_kwargs"), lambda key: config.where("generation_kwargs", key)
    )
    yield from _fewshot_problems(config)
    if isinstance(repeats := values.get("repeats", 1), int) and repeats < 1:
        yield Problem(config.where("repeats"), f"expected at least 1, found {repeats}")


def _key_problems(config: TaskConfig) -> Iterator[Problem]:
    values = config.values
    for key in values:
        if key not in KEYS:
            yield Problem(config.where(key), unknown("task key", str(key), KEYS))
    for key in _needed(values):
        if values.get(key) is None:
            yield Problem(config.files[0].where(), f"the key {key!r} is missing")
    for key, kinds in _TYPES.items():
        value = values.get(key)
        if value is not None and not isinstance(value, (*kinds, FunctionRef)):
            yield Problem(config.where(key), f"expected {_kinds(kinds)}, found {value!r}")
    for key, why in _NEVER.items():
        if values.get(key) is not None:
            yield Problem(config.where(key), f"{key} is set: {why}")


def _needed(values: dict[str, Any]) -> Iterator[str]:
    yield from ("task", "doc_to_text")
    if values.get("process_results") is None:
        yield "doc_to_target"
    if values.get("custom_dataset") is None:
        yield "dataset_path"


def _function_problems(config: TaskConfig) -> Iterator[Problem]:
    for place, ref in functions.found(config.values):
        names = ".".join(str(step) for step in place if not isinstance(step, int))
        if names not in _FUNCTIONS and not names.startswith("metadata"):
            key, *below = place
            yield Problem(config.where(str(key), *below), f"!function {ref.name} cannot stand here")


def _output_problems(config: TaskConfig) -> Iterator[Problem]:
    values = config.values
    output = values.get("output_type") or GENERATE
    if output not in OUTPUT_TYPES:
        yield Problem(config.where("output_type"), unknown("output type", str(output), list(OUTPUT_TYPES)))
    elif output == CHOICE and values.get("doc_to_choice") is None:
        yield Problem(config.files[0].where(), "multiple_choice needs the key 'doc_to_choice'")


def generation_problems(generation: Any, where: Callable[[str], str]) -> Iterator[Problem]:
    """What no endpoint could take, with the place of each key."""
    if not isinstance(generation, dict):
        return
    until = generation.get("until") or []
    stops = until if isinstance(until, list) else [until]
    if not all(isinstance(stop, str) for stop in stops):
        yield Problem(where("until"), f"expected text or a list of texts, found {until!r}")
    if "temperature" in generation and not _is_number(generation["temperature"]):
        yield Problem(where("temperature"), f"expected a number, found {generation['temperature']!r}")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _fewshot_problems(config: TaskConfig) -> Iterator[Problem]:
    fewshot = config.values.get("fewshot_config")
    if not isinstance(fewshot, dict):
        return
    for key in fewshot:
        if key not in _FEWSHOT_KEYS:
            yield Problem(config.where("fewshot_config", key), unknown("key", str(key), _FEWSHOT_KEYS))
    samples = fewshot.get("samples") or []
    if not isinstance(samples, FunctionRef) and not (
        isinstance(samples, list) and all(isinstance(sample, dict) for sample in samples)
    ):
        yield Problem(config.where("fewshot_config", "samples"), "expected a list of documents")


def _kinds(kinds: tuple[type, ...]) -> str:
    names = {str: "text", int: "a whole number", list: "a list", dict: "a mapping"}
    return " or ".join(names[kind] for kind in kinds)


def _fill(values: dict[str, Any]) -> None:
    """Defaults as the harness fills them in: results files show them."""
    for key, default in _DEFAULTS.items():
        if values.get(key) is None:
            values[key] = default
    values["generation_kwargs"] = _generation(values)
    values["fewshot_config"] = _fewshot(values)


def _generation(values: dict[str, Any]) -> dict[str, Any] | None:
    delimiter, generation = values["fewshot_delimiter"], values.get("generation_kwargs")
    if generation is None:
        if values["output_type"] != GENERATE:
            return None
        return {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": [delimiter]}
    if "until" not in generation:
        generation = {**generation, "until": [delimiter]}
    if "temperature" in generation:
        generation = {**generation, "temperature": float(generation["temperature"])}
    return dict(generation)


def _fewshot(values: dict[str, Any]) -> dict[str, Any]:
    """The few-shot settings with what they inherit from the task."""
    inherited = {key: values.get(key) for key in _FEWSHOT_KEYS if key in KEYS}
    full = (
        dict.fromkeys(_FEWSHOT_KEYS)
        | inherited
        | {"sampler": "default", "split": values.get("fewshot_split")}
    )
    return full | (values.get("fewshot_config") or {})
