"""Reads one task's YAML: merges the included files, checks every key, fills in defaults, imports functions.

    settings = TaskFileReader().read(Path("gsm8k.yaml"))
    config = read_task(settings, Path("gsm8k.yaml"))
    config.values["doc_to_text"], config.where("doc_to_text")

Each value keeps the file and line it comes from (`KeyOrigin`), because a task may include other files and a
group may override settings of its members. `!function module.name` names a Python function in the folder of
the task file. It is imported only when a run needs it.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem, UsageError, unknown
from assay.core.params import secret_problem
from assay.files.excerpt import cut_end
from assay.files.paths import can_exist
from assay.files.yaml_files import FunctionRef, YamlFile, load_yaml
from assay.suites.task.dataset.process_docs import datasets_stand_in
from assay.usercode.code_hash import code_sha256
from assay.usercode.errors import UserCodeError
from assay.usercode.modules import installed, load_module

GENERATE, CHOICE, LIKELIHOOD, ROLLING = (
    "generate_until",
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
)
OUTPUT_TYPES = (LIKELIHOOD, CHOICE, ROLLING, GENERATE)
# Every field of the harness's TaskConfig, in its order. Results files list the configuration in this order.
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
# Defaults of the harness. Results files show them.
_DEFAULTS = {
    "unsafe_code": False,
    "description": "",
    "target_delimiter": " ",
    "fewshot_delimiter": "\n\n",
    "output_type": GENERATE,
    "repeats": 1,
    "should_decontaminate": False,
}
FEWSHOT_KEYS = [
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
KEY_TYPES: dict[str, tuple[type, ...]] = {
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
# Settings that may be a `!function`. A dot is a nested key; positions in lists are left out.
FUNCTION_KEYS = frozenset(
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
# Keys of unsupported features, with the reason for the error message.
# Names of the token limit in task files.
TOKEN_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens")
# Names that mean the same, by what they mean. A name of --gen-kwargs replaces all of them.
_SYNONYMS = ((*TOKEN_LIMITS, "max_completion_tokens"), ("until", "stop"))
_REFUSED = {
    "doc_to_image": "image input is not supported",
    "doc_to_audio": "audio input is not supported",
    "use_prompt": "promptsource templates are not supported; write doc_to_text and doc_to_target",
}
# How Python prints the place of an object in memory.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_TYPE_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "a mapping"}


class TaskConfig(Struct, frozen=True):
    """The settings of one task, with includes merged and defaults filled in.

    `files` are the task file and the files it includes. `source` is the path as results files show it.
    """

    path: Path
    values: dict[str, Any]
    origins: dict[str, KeyOrigin]
    files: list[YamlFile]
    source: str

    @property
    def name(self) -> str:
        """The task's name."""
        return str(self.values["task"])

    @property
    def output(self) -> str:
        """The kind of request, one of OUTPUT_TYPES."""
        return str(self.values["output_type"])

    def where(self, key: str, *below: str | int) -> str:
        """Return `file:line key` of a setting. The file may be the task file, an included file or a group file."""
        origin = self.origins.get(key) or KeyOrigin(self.files[0])
        path = ".".join(map(str, (key, *below)))
        return f"{origin.where(key, *below)} {path}"

    def function(self, key: str, *below: str | int) -> Any:
        """Return a setting. A `!function` is imported, and the function is returned."""
        value = self.values.get(key)
        for step in below:
            if isinstance(value, list):
                value = value[step]  # type: ignore[index]
            else:
                value = (value or {}).get(step)
        return import_function(value, self.where(key, *below))


def read_task(settings: TaskSettings, path: Path, source: str | None = None) -> TaskConfig:
    """Check the settings of a task and fill in defaults. Raises InputError with every problem."""
    values = {key: value for key, value in settings.values.items() if key not in ("task_list", "group")}
    config = TaskConfig(path, values, settings.origins, settings.files, source or str(path))
    if problems := list(_find_problems(config)):
        raise InputError(problems)
    for key, default in _DEFAULTS.items():
        if values.get(key) is None:
            values[key] = default
    values["generation_kwargs"] = _fill_generation(values)
    # `fewshot_config` inherits the settings that it does not have from the task, as in the harness.
    fewshot: dict[str, Any] = dict.fromkeys(FEWSHOT_KEYS)
    fewshot |= {key: values.get(key) for key in FEWSHOT_KEYS if key in KEYS}
    fewshot |= {"sampler": "default", "split": values.get("fewshot_split")}
    values["fewshot_config"] = fewshot | (values.get("fewshot_config") or {})
    return config


def _fill_generation(values: dict[str, Any]) -> dict[str, Any] | None:
    delimiter, generation = values["fewshot_delimiter"], values.get("generation_kwargs")
    if generation is None:
        if values["output_type"] != GENERATE:
            return None
        # The harness's defaults: greedy decoding, 256 tokens, and a stop at the next few-shot example.
        return {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": [delimiter]}
    generation = dict(generation)
    if "until" not in generation:
        generation["until"] = [delimiter]
    # The harness writes 0 as 0.0 to the samples file.
    if "temperature" in generation:
        generation["temperature"] = float(generation["temperature"])
    return generation


# Problems


def _find_problems(config: TaskConfig) -> Iterator[Problem]:
    values = config.values
    if "class" in values:
        yield Problem(config.where("class"), "tasks written as a Python class are not supported")
        return
    yield from _find_key_problems(config)
    for place, ref in find_functions(values):
        names = ".".join(str(step) for step in place if not isinstance(step, int))
        if names not in FUNCTION_KEYS and not names.startswith("metadata"):
            key, *below = place
            yield Problem(config.where(str(key), *below), f"!function {ref.name} is not allowed here")
    output = values.get("output_type") or GENERATE
    if output not in OUTPUT_TYPES:
        yield Problem(config.where("output_type"), unknown("output type", str(output), list(OUTPUT_TYPES)))
    elif output == CHOICE and values.get("doc_to_choice") is None:
        yield Problem(config.files[0].where(), "multiple_choice needs the key 'doc_to_choice'")
    yield from find_generation_problems(
        values.get("generation_kwargs"), lambda key: config.where("generation_kwargs", key)
    )
    fewshot = values.get("fewshot_config")
    if isinstance(fewshot, dict):
        for key in fewshot:
            if key not in FEWSHOT_KEYS:
                yield Problem(config.where("fewshot_config", key), unknown("key", str(key), FEWSHOT_KEYS))
        samples = fewshot.get("samples") or []
        if not isinstance(samples, FunctionRef) and not is_list_of_documents(samples):
            yield Problem(config.where("fewshot_config", "samples"), "expected a list of documents")
    if isinstance(repeats := values.get("repeats", 1), int) and repeats < 1:
        yield Problem(config.where("repeats"), f"expected at least 1, found {repeats}")
    if isinstance(shots := values.get("num_fewshot"), int) and shots < 0:
        yield Problem(config.where("num_fewshot"), f"expected at least 0, found {shots}")


def _find_key_problems(config: TaskConfig) -> Iterator[Problem]:
    """Yield unknown keys, missing keys, values of a wrong type, and keys of unsupported features."""
    values = config.values
    for key in values:
        if key not in KEYS:
            yield Problem(config.where(key), unknown("task key", str(key), KEYS))
    needed = ["task", "doc_to_text"]
    if values.get("process_results") is None:
        needed.append("doc_to_target")
    if values.get("custom_dataset") is None:
        needed.append("dataset_path")
    for key in needed:
        if values.get(key) is None:
            yield Problem(config.files[0].where(), f"the key {key!r} is missing")
    for key, kinds in KEY_TYPES.items():
        value = values.get(key)
        if value is not None and not isinstance(value, (*kinds, FunctionRef)):
            names = " or ".join(_TYPE_NAMES[kind] for kind in kinds)
            yield Problem(config.where(key), f"expected {names}, found {value!r}")
    if isinstance(name := values.get("task"), str) and (problem := name_problem(name)):
        yield Problem(config.where("task"), problem)
    for key, value in values.items():
        if key != "generation_kwargs" and not _is_finite(value):
            yield Problem(config.where(key), "NaN and infinity are not numbers of JSON, in which results are written")
    for key, reason in _REFUSED.items():
        if values.get(key) is not None:
            yield Problem(config.where(key), f"{key} is set: {reason}")


def name_problem(name: str) -> str:
    """Return why a name of a task or group cannot be part of a file name; empty if it can."""
    if not name.strip():
        return "the name is empty"
    return "a name cannot have the character NUL" if "\0" in name else ""


def override_generation(generation: dict[str, Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the task's generation parameters with those of --gen-kwargs over them. None removes one.

    A limit or stop strings replace those of the task, whatever name the task has for them. Raises UsageError if the
    flag itself has two names for the same.
    """
    merged = dict(generation)
    for names in _SYNONYMS:
        given = [name for name in names if name in kwargs]
        if len(given) > 1:
            raise UsageError(f"--gen-kwargs: {' and '.join(given)} mean the same; pass one of them")
        if given:
            merged = {name: value for name, value in merged.items() if name not in names}
    merged |= {name: value for name, value in kwargs.items() if value is not None}
    if "stop" in merged:
        # The harness's name, under which the samples file has it.
        merged["until"] = merged.pop("stop")
    return {name: value for name, value in merged.items() if value is not None or name not in kwargs}


def find_generation_problems(generation: Any, where: Callable[[str], str]) -> Iterator[Problem]:
    """Yield generation parameters of a wrong type. `where` returns the place of a key, for the message."""
    if not isinstance(generation, dict):
        return
    until = generation.get("until") or []
    stops = until if isinstance(until, list) else [until]
    if not all(isinstance(stop, str) for stop in stops):
        yield Problem(where("until"), f"expected text or a list of texts, found {until!r}")
    for key in TOKEN_LIMITS:
        tokens = generation.get(key)
        if tokens is not None and type(tokens) is not int:
            yield Problem(where(key), f"expected a whole number, found {tokens!r}")
        elif tokens is not None and tokens < 1:
            yield Problem(where(key), f"expected at least 1, found {tokens}")
    if problem := secret_problem(generation):
        yield Problem(where("headers"), problem)
    if "temperature" in generation:
        temperature = generation["temperature"]
        try:
            is_number = math.isfinite(float(temperature)) and not isinstance(temperature, bool)
        except (TypeError, ValueError):
            is_number = False
        if not is_number:
            yield Problem(where("temperature"), f"expected a number, found {temperature!r}")
    for key, value in generation.items():
        if key != "temperature" and not _is_finite(value):
            yield Problem(where(str(key)), f"{value!r} is not a number of JSON, in which requests are sent")


def _is_finite(value: Any) -> bool:
    """Return False for NaN and infinity, also inside a list or a mapping."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def is_list_of_documents(value: Any) -> bool:
    """Return whether a value is a list of mappings."""
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


# Files


class KeyOrigin(Struct, frozen=True):
    """The place of a key: a file, and the keys above it in that file."""

    file: YamlFile
    above: tuple[str | int, ...] = ()

    def where(self, *key: str | int) -> str:
        """Return `file:line` of the key. Without its own line, this is the line of the nearest key above."""
        return self.file.where(*self.above, *key)


class TaskSettings(Struct, frozen=True):
    """Settings by key, the origin of each, and the files they were read from, the task file first."""

    values: dict[str, Any]
    origins: dict[str, KeyOrigin]
    files: list[YamlFile]

    def override(self, values: dict[str, Any], origin: KeyOrigin) -> TaskSettings:
        """Return a copy in which these values replace others. `origin` is the place of the new values."""
        if not values:
            return self
        return TaskSettings(self.values | values, self.origins | dict.fromkeys(values, origin), self.files)


class TaskFileReader:
    """Reads task files with their includes.

    Each included file is parsed once, because thousands of tasks of lm_eval include the same file.
    """

    def __init__(self) -> None:
        self._included: dict[str, TaskSettings] = {}
        self._repeated: dict[Problem, None] = {}

    @property
    def repeated_keys(self) -> list[Problem]:
        """A warning for each key that is written twice in a file that was read. The last one counts."""
        return list(self._repeated)

    def read(self, path: Path) -> TaskSettings:
        """Return the settings of a file. They win over those of the files it includes."""
        return self._read(path, ())

    def _read(self, path: Path, above: tuple[str, ...]) -> TaskSettings:
        file = load_yaml(path, last_key_wins=True)
        self._repeated.update(dict.fromkeys(file.repeated))
        name = os.path.normpath(path)
        if name in above:
            raise InputError(Problem(str(path), "this file includes itself"))
        settings = TaskSettings({}, {}, [file])
        for included in self._find_includes(file):
            included_settings = self._read_included(included, (*above, name))
            settings.values.update(included_settings.values)
            settings.origins.update(included_settings.origins)
            settings.files.extend(included_settings.files)
        file_values = {key: value for key, value in file.value.items() if key != "include"}
        return settings.override(file_values, KeyOrigin(file))

    def _read_included(self, path: Path, above: tuple[str, ...]) -> TaskSettings:
        name = os.path.normpath(path)
        if name not in self._included:
            self._included[name] = self._read(path, above)
        return self._included[name]

    def _find_includes(self, file: YamlFile) -> list[Path]:
        names = file.value.get("include") or []
        paths = []
        for name in names if isinstance(names, list) else [names]:
            path = file.path.parent / str(name)
            if os.path.normpath(path) not in self._included and not (can_exist(path) and path.is_file()):
                raise InputError(Problem(file.where("include"), f"there is no file {str(name)!r} to include"))
            paths.append(path)
        return paths


# Functions


def import_function(value: Any, where: str) -> Any:
    """Return the function that a `!function` names. Any other value is returned unchanged.

    A file in the folder of the YAML file comes before an installed module.
    """
    if not isinstance(value, FunctionRef):
        return value
    if message := function_name_problem(value):
        raise InputError(Problem(where, message))
    module_name, _, name = value.name.rpartition(".")
    path = function_file(value)
    if not can_exist(path):
        raise InputError(Problem(where, f"!function {cut_end(value.name, 80)}: no file can have this name"))
    if path.is_file():
        try:
            with datasets_stand_in():
                module = load_module(path)
        except InputError as error:
            message = f"!function {value.name}: {error}{_how_to_install(error)}"
            raise InputError(Problem(where, message)) from error
    else:
        installed_module = installed(module_name)
        if installed_module is None:
            message = f"!function {value.name}: there is no file {path} and no module {module_name!r}"
            raise InputError(Problem(where, message))
        module = installed_module
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(Problem(where, f"!function {value.name}: {module_name}.py has no function {name!r}"))
    return function


def _how_to_install(error: InputError) -> str:
    """Return the end of the message about a file of a task that imports a missing package; else an empty text."""
    cause = error.__cause__
    raised = cause.error if isinstance(cause, UserCodeError) else None
    if not isinstance(raised, ModuleNotFoundError) or not raised.name:
        return ""
    package = raised.name.partition(".")[0]
    if package == "lm_eval":
        return ". Tasks of lm-evaluation-harness use its package: pip install 'lm_eval==0.4.13'"
    return f". If {package!r} is a package, install it into the environment of assay"


def function_name_problem(ref: FunctionRef) -> str:
    """Return why a `!function` cannot be a function's name; empty if it can."""
    if not ref.name.rpartition(".")[0]:
        return f"!function {ref.name}: expected module.name"
    if any(not part or "/" in part or "\\" in part for part in ref.name.split(".")):
        message = "a path is not allowed. Put the function into a Python file beside this file, and write module.name"
        return f"!function {ref.name}: {message}"
    return ""


def function_file(ref: FunctionRef) -> Path:
    """Return the file in which the function is looked for. It may not exist."""
    return ref.folder / (ref.name.rpartition(".")[0].replace(".", "/") + ".py")


def setting_identity(value: Any) -> Any:
    """Return a setting for a fingerprint. A function is identified by its file and the files that it imports."""
    if isinstance(value, FunctionRef):
        path = function_file(value)
        return f"{value.name}@{code_sha256(path) if can_exist(path) and path.is_file() else 'installed'}"
    if isinstance(value, dict):
        return {key: setting_identity(item) for key, item in value.items()}
    if isinstance(value, list):
        return [setting_identity(item) for item in value]
    return value


def _harness_module(ref: FunctionRef) -> str:
    """Return the name under which the harness imports a function's file: its path, or lm_eval.tasks.NAME of its own."""
    path = function_file(ref).resolve().with_suffix("").as_posix()
    _, own, name = path.partition("/lm_eval/tasks/")
    return f"lm_eval.tasks.{name.replace('/', '.')}" if own else path


def find_functions(
    value: Any, place: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], FunctionRef]]:
    """Yield every `!function` in a setting, with the keys that lead to it."""
    if isinstance(value, FunctionRef):
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from find_functions(item, (*place, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from find_functions(item, (*place, position))


def written_setting(value: Any, *, nested: bool = False) -> Any:
    """Return a setting as results files show it. A function is its source text, or `<function name>` if `nested`.

    What has no source, such as a `functools.partial`, is the text that Python prints for it. Addresses in memory, which
    the harness writes too, are left out: they are others in every run.
    """
    if isinstance(value, FunctionRef):
        try:
            function = import_function(value, "")
        except (InputError, UsageError):
            return f"!function {value.name}"
        if not nested:
            try:
                return inspect.getsource(function)
            except (OSError, TypeError):
                pass
        if inspect.isclass(function):
            return f"<class '{_harness_module(value)}.{function.__qualname__}'>"
        return _ADDRESS.sub("", str(function))
    if isinstance(value, dict):
        return {key: written_setting(item, nested=nested) for key, item in value.items()}
    if isinstance(value, list):
        return [written_setting(item, nested=nested) for item in value]
    return value
