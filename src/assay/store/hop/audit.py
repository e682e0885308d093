"""One line of a results file as one result, whatever wrote it: the rules for every shape.

A result has one of four forms:

- flat: `hop_result` and `hop_stats` in the row;
- wrapped by the view: `input`, and `result` or `error`;
- plain: an object whose `result` holds an object as text, or with the task's key field on top;
- a bare pair of a status and a result.

Other lines are no results: meta lines, records of the observer or of the frontend's log, and lines of input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.hop_records import MAX_WRAPPERS, file_status, is_meta, is_observer_line, is_pair, unwrap

NO_MESSAGE = "(no message)"
SCALAR = "result"
"""The field for a result that is JSON, but no object."""
_OWN = ("hop_result", "hop_stats", "profile")
_IDENTITY = ("id", "tag", "difficulty")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Audit(msgspec.Struct):
    """One result. `status` says whether the call came back, `outcome` what the function said of its answer.

    Of an error no `fields` are kept. `raw` is the text of a result that is not JSON.
    """

    row: dict[str, Any]
    fields: dict[str, Any] = {}
    profile: str | None = None
    status: str = "OK"
    outcome: str | None = None
    error: str | None = None
    parse_error: bool = False
    raw: str | None = None
    stats: dict[str, Any] = {}

    @property
    def failed(self) -> bool:
        """Whether the call raised or ran out of time."""
        return self.status == "ERROR"

    def flat(self) -> dict[str, Any]:
        """One object: the result's fields over the line's own, of which id, tag and difficulty stay."""
        identity = {name: self.row[name] for name in _IDENTITY if name in self.row}
        flat = {
            **self.row,
            **self.fields,
            **identity,
            "profile": self.profile,
            "hop_status": self.status,
            "hop_outcome": self.outcome,
            "hop_error": self.error,
            "parse_error": self.parse_error,
        }
        if self.raw is not None:
            flat["hop_raw"] = self.raw
        return flat


class _OpenedResult(msgspec.Struct):
    """What is inside of a `hop_result` or `result`."""

    fields: dict[str, Any] = {}
    outcome: str | None = None
    raw: str | None = None


def read_audit(rec: Mapping[str, Any] | list[Any], key: str | None = None) -> Audit | None:
    """The result in a line; None for a line that holds none. `key` is the task's key field."""
    if isinstance(rec, list):
        return _pair(rec) if is_pair(rec) else None
    if is_meta(rec) or is_observer_line(rec):
        return None
    if "hop_result" in rec or isinstance(rec.get("hop_stats"), dict):
        return _flat(rec)
    if isinstance(rec.get("input"), dict) and ("result" in rec or "error" in rec):
        return _viewed(rec)
    return None if rec.keys() >= {"ts", "level", "message"} else _plain(rec, key)


def read_json(text: str | bytes) -> Any:
    """JSON of any writer: NaN and infinities are null, half a surrogate pair is `?`. ValueError if none."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError):
        pass
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    value = json.loads(text, parse_constant=lambda _: None)
    return _decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _input(rec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The line of input inside of the view's wrappers; a line with no end of them stays as it is."""
    try:
        return unwrap(dict(rec))
    except ValueError:
        return rec


def _pair(rec: list[Any]) -> Audit:
    """A bare `[status, result]` pair. It has no row. With status ERROR the second item is the error message."""
    if file_status(rec[0]) == "ERROR":
        return _error(Audit({}), rec[1], None)
    return _filled(Audit({}), rec, None)


def _flat(rec: Mapping[str, Any]) -> Audit:
    stats, result = rec.get("hop_stats"), rec.get("hop_result")
    if not isinstance(stats, dict):
        stats = {}
    status, error = file_status(stats.get("status")), stats.get("error")
    audit = Audit(_row(rec), profile=_profile(rec), stats=stats)
    if status == "ERROR" or (not status and (_is_empty(result) or not _is_empty(error))):
        return _error(audit, error, result)
    return _filled(audit, result, status if status not in {"", "OK"} else None)


def _viewed(rec: Mapping[str, Any]) -> Audit:
    """An error wins over a result beside it; an empty one wins where the result is empty, too."""
    error, result = rec.get("error"), rec.get("result")
    audit = Audit(_row(_input(rec)), profile=_profile(rec))
    nothing = "result" not in rec or (error is not None and _is_empty(result))
    if nothing or not _is_empty(error):
        return _error(audit, error, result)
    return _filled(audit, result, None)


def _plain(rec: Mapping[str, Any], key: str | None) -> Audit | None:
    """A result without a wrapper; of one in `result` the key field must be there if the task has one."""
    audit, result = Audit(_row(rec), profile=_profile(rec)), rec.get("result")
    if key is not None and key in rec:
        audit.fields = {name: rec[name] for name in audit.row if name not in _IDENTITY}
        return audit
    opens = result.lstrip()[:1] if isinstance(result, str) else "[" if is_pair(result) else ""
    if opens not in {"{", "["}:
        return None
    del audit.row["result"]
    _filled(audit, result, None)
    known = bool(audit.fields) if key is None else key in audit.fields
    return audit if known and (opens == "{" or audit.outcome is not None) else None


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _row(rec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rec.items() if name not in _OWN}


def _profile(rec: Mapping[str, Any]) -> str | None:
    """Only the line's own: one inside `input` is that of an earlier run."""
    profile = rec.get("profile")
    return profile if profile is None or isinstance(profile, str) else _text(profile)


def _error(audit: Audit, error: Any, result: Any) -> Audit:
    audit.status = "ERROR"
    audit.error = NO_MESSAGE if _is_empty(error) else _text(error)
    audit.raw = result if isinstance(result, str) and result else None
    return audit


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _filled(audit: Audit, result: Any, outcome: str | None) -> Audit:
    opened = _open(result)
    audit.fields, audit.raw = opened.fields, opened.raw
    audit.outcome = opened.outcome or outcome
    audit.parse_error = opened.raw is not None
    return audit


def _open(value: Any) -> _OpenedResult:
    """Texts, pairs of a status and a result, and nested `result` texts are opened until there are fields."""
    opened = _OpenedResult()
    for depth in range(MAX_WRAPPERS):
        if isinstance(value, str):
            try:
                value = read_json(value) if value.strip() else None
            except (ValueError, RecursionError):
                # Text that is not JSON is kept as it is, unless it was a JSON string, which is a value.
                if depth and opened.outcome is None:
                    opened.fields[SCALAR] = value
                else:
                    opened.raw = value
                return opened
        elif is_pair(value):
            opened.outcome, value = opened.outcome or file_status(value[0]), value[1]
        elif isinstance(value, dict) and (inner := _nested(value)) is not None:
            opened.fields |= {name: item for name, item in value.items() if name != "result"}
            value = inner
        else:
            break
    if isinstance(value, dict):
        opened.fields = opened.fields | value
    elif value is not None:
        opened.fields[SCALAR] = value
    return opened


def _nested(value: dict[str, Any]) -> Any:
    """The `result` of an object if it holds an object or a pair as text, or is a pair; else None."""
    inner = value.get("result")
    if isinstance(inner, str) and inner.lstrip()[:1] in {"{", "["}:
        try:
            opened = read_json(inner)
        except (ValueError, RecursionError):
            return None
        return opened if isinstance(opened, dict) or is_pair(opened) else None
    return inner if is_pair(inner) else None
