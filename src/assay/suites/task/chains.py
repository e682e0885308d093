"""Chains of filters: what a task makes of the replies to a request before they are scored."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from assay.core import registry
from assay.core.errors import InputError, Problem, UsageError
from assay.core.registry import unknown
from assay.core.yamlfile import FunctionRef
from assay.scoring.filters import takes_doc
from assay.suites.task import functions
from assay.suites.task.config import TaskConfig

_MOST_SHOWN = 20
"""Of answers that were not voted on; every vote is kept."""
_CHOOSE = frozenset({"take_first", "take_first_k", "majority_vote"})
Step = Callable[[Any, dict[str, Any]], Any]


class Chain(NamedTuple):
    """A named chain of filters. `ends_in_list` where it is known to leave several answers."""

    name: str
    steps: list[tuple[str, Step]]
    ends_in_list: bool

    def extract(self, replies: list[Any], doc: dict[str, Any]) -> list[Any]:
        """What the chain reads in every single reply, before it chooses among them."""
        value: Any = replies
        for name, step in self.steps:
            if name not in _CHOOSE:
                value = step(value, doc)
        return list(value)


class Filtered(Struct, frozen=True):
    """What a chain made of the replies to one request."""

    value: Any
    votes: list[tuple[Any, int]] | None


def chains(config: TaskConfig, *, imports: bool = True) -> list[Chain]:
    """The task's filter chains; without any, the first reply as it is."""
    listed = config.values.get("filter_list")
    if not listed:
        return [Chain("none", [("take_first", _step("take_first", {}))], ends_in_list=False)]
    problems: list[Problem] = []
    found = [_chain(config, position, entry, problems, imports) for position, entry in enumerate(listed)]
    names = [chain.name for chain in found]
    problems += [
        Problem(config.where("filter_list", at, "name"), f"two chains are named {name!r}")
        for at, name in enumerate(names)
        if name and name in names[:at]
    ]
    if problems:
        raise InputError(problems)
    return found


def _chain(config: TaskConfig, position: int, entry: Any, problems: list[Problem], imports: bool) -> Chain:
    place = ("filter_list", position)
    if not isinstance(entry, dict) or "name" not in entry or not isinstance(entry.get("filter"), list):
        problems.append(Problem(config.where(*place), "expected `name` and a list `filter`"))
        return Chain("", [], ends_in_list=False)
    steps = []
    for at, step in enumerate(entry["filter"]):
        where = config.where(*place, "filter", at)
        if not isinstance(step, dict) or "function" not in step:
            problems.append(Problem(where, "expected a mapping with the key 'function'"))
            continue
        options = {key: value for key, value in step.items() if key != "function"}
        if built := _built(step["function"], options, where, problems, imports):
            steps.append((str(step["function"]), built))
    return Chain(str(entry["name"]), steps, _ends_in_list(entry["filter"]))


def _ends_in_list(steps: list[Any]) -> bool:
    """Only `take_first` takes an answer out of its list; of the user's own filters nothing is known."""
    names = [step.get("function") for step in steps if isinstance(step, dict)]
    own = any(isinstance(name, FunctionRef) or name == "custom" or ".py:" in str(name) for name in names)
    return not own and "take_first" not in names


def _built(
    name: Any, options: dict[str, Any], where: str, problems: list[Problem], imports: bool
) -> Step | None:
    try:
        if isinstance(name, FunctionRef):
            return _own_filter(name, options, where) if imports else _not_imported
        if not imports and any(isinstance(value, FunctionRef) for value in options.values()):
            registry.find("filter", name)
            return _not_imported
        resolved = {key: functions.resolve(value, where) for key, value in options.items()}
        return _step(str(name), resolved)
    except InputError as error:
        problems.extend(error.problems)
    except (UsageError, ValueError, TypeError) as error:
        problems.append(Problem(where, str(error)))
    except Exception as error:  # noqa: BLE001 - re.error and whatever a plugin raises on wrong options
        problems.append(Problem(where, f"filter {name!r}: {error}"))
    return None


def _not_imported(_replies: Any, _doc: dict[str, Any]) -> Any:
    raise UsageError("this filter was checked, not imported")


def _step(name: str, options: dict[str, Any]) -> Step:
    module = registry.find("filter", name)
    built = bound(module.build, options)
    if takes_doc(module):
        step: Step = built
        return step
    return lambda replies, _doc: built(replies)


def _own_filter(ref: FunctionRef, options: dict[str, Any], where: str) -> Step:
    """A filter class as the harness has them: `apply(resps, docs)` over lists of documents."""
    made = functions.resolve(ref, where)(**options)
    if not callable(getattr(made, "apply", None)):
        raise UsageError(f"!function {ref.name}: a filter has a method apply(resps, docs)")
    return lambda replies, doc: next(iter(made.apply([replies], [doc])))


def bound(build: Callable[..., Any], options: dict[str, Any]) -> Any:
    """`build(**options)`, with a sentence for options it does not have or does not get."""
    known = inspect.signature(build).parameters
    for option in options:
        if option not in known:
            raise UsageError(unknown("option", str(option), sorted(known) or ["(none)"]))
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in options:
            raise UsageError(f"the option {name!r} is missing")
    return build(**options)


def run_chain(chain: Chain, replies: list[Any], doc: dict[str, Any]) -> Filtered:
    """The filtered value, and the votes there were before the first step that chose among several."""
    value: Any = replies
    votes = None
    for name, step in chain.steps:
        if votes is None and name in ("majority_vote", "take_first") and _several(value):
            votes = Counter(map(str, value)).most_common(None if name == "majority_vote" else _MOST_SHOWN)
        value = step(value, doc)
    return Filtered(value, votes)


def _several(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1
