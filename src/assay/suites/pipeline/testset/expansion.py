"""`parameters`: one written case for every combination of their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import msgspec

from assay.suites.pipeline.testset.case import TestCase


def expanded(case: TestCase) -> Iterator[TestCase]:
    """The cases that a case stands for: itself, or one for each combination, named `id[k=v]`.

    The last list turns fastest. Values go into the inputs, over what stands there.
    """
    if not case.parameters:
        yield case
        return
    for names, values in _combinations(case):
        key = f"{case.key}[{names}]"
        raw = {name: value for name, value in case.raw_data.items() if name != "parameters"}
        raw |= {"id": key, "inputs": {**(raw.get("inputs") or {}), **values}}
        yield replace(
            case, id=key, inputs={**case.inputs, **values}, raw_data=raw, origin=case.origin or case.key
        )


def expanded_keys(case: TestCase) -> list[str]:
    """The ids that `expanded` would give, without building the cases."""
    if not case.parameters:
        return [case.key]
    return [f"{case.key}[{names}]" for names, _ in _combinations(case)]


def _combinations(case: TestCase) -> Iterator[tuple[str, dict[str, Any]]]:
    parameters = case.parameters or {}
    for chosen in product(*parameters.values()):
        values = dict(zip(parameters, chosen, strict=True))
        yield ",".join(f"{name}={_text(value)}" for name, value in values.items()), values


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
