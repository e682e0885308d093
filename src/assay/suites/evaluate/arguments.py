"""Chooses the arguments of a user's function by the names of its parameters.

    def answer(question, ctx): …       # the column `question`, and the context
    def answer(row): …                 # the whole row without gold
    def close(answer, target): …       # a scorer

A required parameter with any other name raises UsageError before the first call. The message lists the possible
names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.errors import UsageError
from assay.usercode.source import describe_callable, parameters_of

ROW, CONTEXT = "row", "ctx"
SCORER_NAMES = ("answer", "target", "row", "ctx", "records")
"""The parameter names that a scorer may have."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Arguments(NamedTuple):
    """The values that a function is called with: column names, or names such as `row` and `ctx`.

    `positional` has the names for positional arguments. `keywords` maps parameters to names.
    """

    positional: tuple[str, ...] = ()
    keywords: Mapping[str, str] = {}
    rest: bool = False
    """True if the function has a `**parameter`, which gets all columns that no other parameter takes."""

    def choose(self, values: Mapping[str, Any], columns: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments of one call.

        A name is looked up in `values`, then in `columns`. A column that the row lacks is None.
        """

        def value_of(name: str) -> Any:
            return values[name] if name in values else columns.get(name)

        keywords = {parameter: value_of(name) for parameter, name in self.keywords.items()}
        if self.rest:
            keywords |= {name: value for name, value in columns.items() if name not in keywords}
        return tuple(value_of(name) for name in self.positional), keywords

    def takes(self, name: str) -> bool:
        """Return True if the function takes the value with this name."""
        return name in self.positional or name in self.keywords.values()


def subject_arguments(
    function: Callable[..., Any], columns: Sequence[str], gold: Collection[str], what: str
) -> Arguments:
    """Return the arguments of a function that is called with a row: columns by name, `row`, `ctx`.

    If the function has exactly one required parameter, and no column has its name, that parameter gets the whole
    row. `what` says how the user passed the function, such as `answer=`, for messages. Raises UsageError for a
    gold column, and for a required parameter without a matching column.
    """
    parameters = parameters_of(function)
    if parameters is None:
        return Arguments((ROW,))
    name = describe_callable(function)
    for parameter in parameters:
        if parameter in gold:
            raise UsageError(
                f"{what} {name}() takes {parameter!r}, which is gold: scorers see it, the evaluated function does not"
            )
    required = [
        parameter
        for parameter in parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        and parameter.name != CONTEXT
    ]
    sources = {ROW: ROW, CONTEXT: CONTEXT} | {column: column for column in columns if column not in gold}
    if len(required) == 1 and required[0].name not in sources:
        sources[required[0].name] = ROW
    missing = [parameter.name for parameter in required if parameter.name not in sources]
    if missing:
        usable = [column for column in columns if column not in gold]
        raise UsageError(
            f"{what} {name}() takes {', '.join(map(repr, missing))}, but the rows have no such column. "
            f"Columns it may take: {', '.join(usable) or 'none'}; `row` is the whole row, `ctx` the context"
        )
    return _arguments(parameters, sources)


def scorer_arguments(function: Callable[..., Any], *, has_target: bool) -> Arguments:
    """Return the arguments of a scorer: any of answer, target, row, ctx and records.

    Raises UsageError for other required parameters, and for `target` without a target column.
    """
    parameters = parameters_of(function)
    name = describe_callable(function)
    if parameters is None:
        raise UsageError(
            f"assay cannot read the parameters of {name}; wrap it: lambda answer, target: {name}(answer, target)"
        )
    for parameter in parameters.values():
        if parameter.name in SCORER_NAMES or parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            continue
        raise UsageError(
            f"the scorer {name}() takes {parameter.name!r}; a scorer takes any of {', '.join(SCORER_NAMES)} by name"
        )
    if "target" in parameters and not has_target:
        raise UsageError(f"the scorer {name}() takes `target`; name the column of right answers: target='COLUMN'")
    return _arguments(parameters, {value: value for value in SCORER_NAMES})


def _arguments(parameters: Mapping[str, inspect.Parameter], sources: Mapping[str, str]) -> Arguments:
    """Match parameters with values. `sources` maps a parameter's name to the name of its value."""
    positional: list[str] = []
    keywords: dict[str, str] = {}
    rest = False
    for parameter in parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            rest = True
        elif parameter.name in sources:
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(sources[parameter.name])
            else:
                keywords[parameter.name] = sources[parameter.name]
    return Arguments(tuple(positional), keywords, rest)
