"""Labels in a judge's reply: what it must look like, how it is read, and what is said of one that is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.errors import ModelError
from assay.core.types import Response

_SHOWN = 200
_DECLINED = frozenset({"refusal", "context_overflow"})
_REASON = {"type": "string", "maxLength": 400}
"""Bounded, since a small model that is held to a schema may not find an end."""


def no_verdict(response: Response, why: str) -> str:
    """The reason of an invalid verdict: what is wrong, whether it was cut, and how the reply begins."""
    text = response.text
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    cut = ", which was cut at its limit of tokens" if response.finish == "length" else ""
    return f"no verdict: {why}{cut}: {shown!r}"


def refused(error: ModelError) -> str:
    """The reason of an invalid verdict where the judge itself declined; a call that failed is raised again.

    Asked another day, it would decline again: what is judged would stay without a verdict for ever. A judge
    whose own code raises has not declined: it is told, and asked again when it is mended.
    """
    if error.failure.kind not in _DECLINED:
        raise error
    return f"no verdict: {error}"


def label_schema(labels: Sequence[str]) -> dict[str, Any]:
    """A reason, then one label."""
    return _fields({"reason": _REASON, "label": {"enum": list(labels)}})


def labels_schema(labels: Sequence[str], count: int) -> dict[str, Any]:
    """A reason, then a label for each number from 1 on: none can be left out, none can stand twice."""
    numbers = {str(number): {"enum": list(labels)} for number in range(1, count + 1)}
    return _fields({"reason": _REASON, "labels": _fields(numbers)})


def label_in(reply: Mapping[str, Any], labels: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The one label and the reason."""
    return (_known(reply.get("label"), labels, {}, "`label`"),), _reason(reply)


def labels_in(
    reply: Mapping[str, Any], labels: Sequence[str], count: int, aliases: Mapping[str, str]
) -> tuple[tuple[str, ...], str]:
    """The labels in order of their numbers, exactly one for each, and the reason."""
    given = reply.get("labels")
    if not isinstance(given, dict):
        raise ValueError("`labels` is no object")  # noqa: TRY004
    wanted = [str(number) for number in range(1, count + 1)]
    said = {name.strip(): label for name, label in given.items()}
    if len(said) < len(given) or said.keys() != set(wanted):
        raise ValueError(_numbers(list(given), wanted))
    return tuple(_known(said[name], labels, aliases, f"label {name}") for name in wanted), _reason(reply)


def _numbers(given: list[str], wanted: list[str]) -> str:
    said = [name.strip() for name in given]
    missing = [name for name in wanted if name not in said]
    if missing:
        return f"{len(missing)} of {len(wanted)} labels are missing, the first is {missing[0]}"
    return f"`labels` has {len(given)} labels in place of {len(wanted)}"


def _known(said: Any, labels: Sequence[str], aliases: Mapping[str, str], where: str) -> str:
    """Case and spaces around it may differ; anything else is another label."""
    names = {label.casefold(): label for label in labels} | dict(aliases)
    found = names.get(said.strip().casefold()) if isinstance(said, str) else None
    if found is None:
        raise ValueError(f"{where} is {said!r:.60}, not one of {', '.join(labels)}")
    return found


def _reason(reply: Mapping[str, Any]) -> str:
    reason = reply.get("reason", "")
    if not isinstance(reason, str):
        raise ValueError("`reason` is not a text")  # noqa: TRY004
    return reason


def _fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
