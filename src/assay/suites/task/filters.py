"""Filter chains: a task's `filter_list`, which extracts an answer from the replies before scoring.

    chains = read_filters(config)
    answer = chains[0].run(replies, document).value

A chain gets all replies to one request as a list, one for each of the task's `repeats`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem, UsageError, similar_names
from assay.files.read import read_file
from assay.files.yaml_files import FunctionRef
from assay.language.patterns import PatternStopped
from assay.scoring.filters import BUILT_IN, find_filter
from assay.suites.task.config import TaskConfig, find_functions, function_file, import_function
from assay.usercode.errors import UserCodeError
from assay.usercode.user_function import call_here

NO_FILTER = "none"
"""The harness's name for its default chain."""
# `take_first` ignores the other answers, so the journal keeps only the most frequent ones. A majority vote
# depends on all of them, so all are kept.
_MAX_VOTES_OF_TAKE_FIRST = 20
# Filters that select among the replies. All others change each reply on its own.
_SELECTING_FILTERS = frozenset({"take_first", "take_first_k", "majority_vote"})
# `@register_filter("name")` in a Python file, which makes a filter known to the harness.
_REGISTERED = re.compile(r"""\bregister_filter\(\s*["']([^"']+)["']""")
_MAX_CODE_BYTES = 1 << 24
FilterFunction = Callable[[Any, dict[str, Any]], Any]


class FilterChain(Struct, frozen=True):
    """A named chain of filters. `ends_in_list` if its result is certainly a list, not one answer."""

    name: str
    steps: list[tuple[str, FilterFunction]]
    ends_in_list: bool

    def run(self, replies: list[Any], document: dict[str, Any]) -> FilterResult:
        """Apply all filters to the replies to one request."""
        value: Any = replies
        votes = None
        for name, step in self.steps:
            # The votes are the answers before the first filter that selects one of them.
            selects = name in ("majority_vote", "take_first") and isinstance(value, list) and len(value) > 1
            if votes is None and selects:
                limit = None if name == "majority_vote" else _MAX_VOTES_OF_TAKE_FIRST
                votes = Counter(map(str, value)).most_common(limit)
            value = step(value, document)
        return FilterResult(value, votes)

    def extract(self, replies: list[Any], document: dict[str, Any]) -> list[Any]:
        """Return the answer in every single reply: applies all filters except those that select a reply."""
        value: Any = replies
        for name, step in self.steps:
            if name not in _SELECTING_FILTERS:
                value = step(value, document)
        return list(value)


class FilterResult(Struct, frozen=True):
    """The answer that a chain extracts for one request, and the counted answers it was selected from."""

    value: Any
    votes: list[tuple[Any, int]] | None


def read_filters(config: TaskConfig, *, imports: bool = True) -> list[FilterChain]:
    """Return the task's filter chains. Raises InputError with all problems.

    With `imports` False no Python of the task is imported, and the chains cannot run.
    """
    entries = config.values.get("filter_list")
    if not entries:
        return [FilterChain(NO_FILTER, [("take_first", _build_step("take_first", {}, ""))], ends_in_list=False)]
    problems: list[Problem] = []
    chains: list[FilterChain] = []
    for position, entry in enumerate(entries):
        place = ("filter_list", position)
        if not isinstance(entry, dict) or "name" not in entry or not isinstance(entry.get("filter"), list):
            problems.append(Problem(config.where(*place), "expected `name` and a list `filter`"))
            continue
        name = str(entry["name"])
        if name and any(chain.name == name for chain in chains):
            problems.append(Problem(config.where(*place, "name"), f"two chains are named {name!r}"))
        steps = []
        for number, step in enumerate(entry["filter"]):
            where = config.where(*place, "filter", number)
            if not isinstance(step, dict) or "function" not in step:
                problems.append(Problem(where, "expected a mapping with the key 'function'"))
                continue
            built = _read_step(config, step, where, problems, imports=imports)
            if built is not None:
                steps.append((str(step["function"]), built))
        chains.append(FilterChain(name, steps, _ends_in_list(entry["filter"])))
    if problems:
        raise InputError(problems)
    return chains


def _ends_in_list(steps: list[Any]) -> bool:
    """Return whether a chain certainly returns a list.

    `take_first` is the only built-in filter that returns one answer. Filters of the user may return anything.
    """
    names = [step.get("function") for step in steps if isinstance(step, dict)]
    for name in names:
        if isinstance(name, FunctionRef) or name == "custom" or str(name) not in BUILT_IN:
            return False
    return "take_first" not in names


def _read_step(
    config: TaskConfig, step: dict[str, Any], where: str, problems: list[Problem], *, imports: bool
) -> FilterFunction | None:
    name = step["function"]
    options = {key: value for key, value in step.items() if key != "function"}
    try:
        if isinstance(name, str) and (ref := _registering_function(config, name)) is not None:
            return _build_class(_registered_class(ref, name, where), name, options) if imports else _not_imported
        if not imports and ".py:" in str(name):
            return _not_imported
        if isinstance(name, FunctionRef):
            if not imports:
                return _not_imported
            return _build_class(import_function(name, where), f"!function {name.name}", options)
        if not imports and any(isinstance(value, FunctionRef) for value in options.values()):
            # Raises an error for an unknown filter.
            find_filter(name)
            return _not_imported
        imported = {key: import_function(value, where) for key, value in options.items()}
        return _build_step(str(name), imported, where)
    except InputError as error:
        problems.extend(error.problems)
    except (UsageError, ValueError, TypeError) as error:
        problems.append(Problem(where, str(error)))
    except Exception as error:  # noqa: BLE001 - re.error and whatever a plugin raises on wrong options
        problems.append(Problem(where, f"filter {name!r}: {error}"))
    return None


def _not_imported(_replies: Any, _document: dict[str, Any]) -> Any:
    raise UsageError("this filter cannot run: its file was read with imports=False")


def _build_step(name: str, options: dict[str, Any], where: str) -> FilterFunction:
    plugin = find_filter(name)
    built = build_with_options(plugin.build, options)
    if plugin.takes_doc:

        def step(replies: Any, document: dict[str, Any]) -> Any:
            try:
                return built(replies, document)
            except PatternStopped as error:
                raise error.at(where) from None

    else:

        def step(replies: Any, document: dict[str, Any]) -> Any:
            try:
                return built(replies)
            except PatternStopped as error:
                raise error.at(where) from None

    return step


def _build_class(filter_class: Callable[..., Any], name: str, options: dict[str, Any]) -> FilterFunction:
    """Build a filter from a class of the user, whose method `apply(resps, docs)` takes lists as in the harness."""
    try:
        instance = call_here(filter_class, (), options)
    except UserCodeError as error:
        raise UsageError(error.text) from error
    if not callable(getattr(instance, "apply", None)):
        raise UsageError(f"{name}: expected a class with a method apply(resps, docs)")
    return lambda replies, document: next(iter(instance.apply([replies], [document])))


def _registering_function(config: TaskConfig, name: str) -> FunctionRef | None:
    """Return a `!function` of the task whose file registers a filter of this name; None for a built-in name.

    The harness imports the file for the function, and then knows the filter by its name.
    """
    if name in BUILT_IN:
        return None
    for _, ref in find_functions(config.values):
        if name in _registered_names(function_file(ref)):
            return ref
    return None


def _registered_names(path: Path) -> frozenset[str]:
    """Return the names that a Python file registers with lm_eval's `register_filter`, without importing it."""
    try:
        text = read_file(path, _MAX_CODE_BYTES).decode(errors="replace")
    except (OSError, InputError):  # there is no such file, or it is a pipe or a device
        return frozenset()
    return frozenset(_REGISTERED.findall(text))


def _registered_class(ref: FunctionRef, name: str, where: str) -> Callable[..., Any]:
    import_function(ref, where)
    # The file has imported this module to register the class in it.
    get_filter: Callable[[str], Callable[..., Any]] = import_module("lm_eval.api.registry").get_filter
    return get_filter(name)


@lru_cache(1024)
def parameters_of(build: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function that builds a filter or metric. Thousands of tasks have the same ones."""
    return inspect.signature(build).parameters


def build_with_options(build: Callable[..., Any], options: dict[str, Any], other_keys: Iterable[str] = ()) -> Any:
    """Call `build(**options)`. Raises UsageError for unknown options and for missing ones.

    `other_keys` stand beside the options in the file. An unknown option may be one of them, misspelled.
    """
    parameters = parameters_of(build)
    for option in options:
        if option not in parameters:
            near = similar_names(str(option), [*parameters, *other_keys])
            known = f"known: {', '.join(sorted(parameters)) or '(none)'}"
            hint = f"did you mean {near[0]!r}?" if near else known
            raise UsageError(f"there is no option named {str(option)!r}; {hint}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in options:
            raise UsageError(f"the option {name!r} is missing")
    return build(**options)
