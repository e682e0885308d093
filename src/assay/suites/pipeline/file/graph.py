"""Which step waits for which: by what it maps, by what its template names, by what it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, TemplateError, meta

from assay.core.findings import Findings, Key
from assay.core.registry import unknown
from assay.solvers.steps.batch import BATCH_ITEMS
from assay.solvers.steps.pipeline import ValuePath

_parse = Environment(autoescape=False).parse  # noqa: S701 - only to read names, nothing is rendered


class Graph:
    """The steps of a pipeline by id and by output key."""

    def __init__(self, steps: list[dict[str, Any]], declared: frozenset[str], found: Findings) -> None:
        self._steps = steps
        self._declared = declared
        self._found = found
        self.owner = {key_of(step): step["id"] for step in steps}
        self.owner |= {step["id"]: step["id"] for step in steps}

    def sources(self, step: dict[str, Any]) -> dict[str, ValuePath]:
        """What a step maps. A root that is nothing known is a problem."""
        mapping = self._found.typed(step, "input_mapping", dict, self._at(step)) or {}
        found = {}
        for name, text in mapping.items():
            if source := self.source(text, (*self._at(step), "input_mapping", name)):
                found[str(name)] = source
        return found

    def source(self, text: Any, at: Key) -> ValuePath | None:
        """A path that begins at an output, an input or the batch items."""
        try:
            source = ValuePath(str(text))
        except ValueError as error:
            self._found.add(at, str(error))
            return None
        known = {*self.owner, *self._declared, BATCH_ITEMS, "inputs"}
        if self._declared and source.root not in known:
            self._found.add(at, unknown("input or output", source.root, sorted(known)))
            return None
        return source

    def after(self, step: dict[str, Any], sources: dict[str, ValuePath]) -> frozenset[str]:
        """The ids of the steps that must have ended."""
        named = {self.owner[source.root] for source in sources.values() if source.root in self.owner}
        if not sources:
            named |= set(self._seen(step))
        for other in self._found.typed(step, "depends_on", list, self._at(step)) or []:
            if isinstance(other, str) and other in self.owner:
                named.add(self.owner[other])
            else:
                ids = [one["id"] for one in self._steps]
                self._found.add((*self._at(step), "depends_on"), unknown("step", str(other), ids))
        return frozenset(named)

    def _seen(self, step: dict[str, Any]) -> Iterator[str]:
        """What a step without a mapping sees: a prompt what it names, code and aggregates all above them."""
        if step["type"] == "prompt":
            for name in names_in(str(step.get("template", "")), str(step.get("system", ""))):
                if name in self.owner and self.owner[name] != step["id"]:
                    yield self.owner[name]
            return
        for other in self._steps:
            if other["id"] == step["id"]:
                return
            yield other["id"]

    def check_cycles(self, after: dict[str, frozenset[str]]) -> None:
        """Steps that wait for each other are named in a circle."""
        done: set[str] = set()
        left = dict(after)
        while ready := [step for step, others in left.items() if others <= done]:
            done |= set(ready)
            left = {step: others for step, others in left.items() if step not in done}
        if left:
            circle = _circle(left)
            step = next(one for one in self._steps if one["id"] == circle[0])
            self._found.add(self._at(step), f"steps wait for each other: {' → '.join(circle)}")

    def _at(self, step: dict[str, Any]) -> Key:
        return ("steps", step["at"])


def key_of(step: dict[str, Any]) -> str:
    """The name of a step's output: its id unless it says otherwise."""
    return str(step.get("output_key") or step["id"])


def names_in(*templates: str) -> set[str]:
    """The variables of templates; what does not compile is found elsewhere."""
    names: set[str] = set()
    for template in templates:
        try:
            names |= meta.find_undeclared_variables(_parse(template))
        except TemplateError:
            continue
    return names


def _circle(left: dict[str, frozenset[str]]) -> list[str]:
    """One way around, from a step back to itself."""
    path = [min(left)]
    while True:
        following = min(other for other in left[path[-1]] if other in left)
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)
