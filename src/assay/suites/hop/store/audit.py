"""Reads one line of a result file. Result files come from assay, from HOP and from the HOP view.

A result has one of four forms:

- flat: `hop_result` and `hop_stats` in the row;
- wrapped by the view: `input`, and `result` or `error`;
- plain: an object whose `result` is an object as text, or an object with the task's key field;
- a bare `[status, result]` pair.

Other lines are not results: meta lines, records of the observer or of the frontend's log, and input rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.suites.hop.batch_lines import MAX_WRAPPERS, file_status, is_meta, is_observer_line, is_pair, unwrap

NO_MESSAGE = "(no message)"
SCALAR = "result"
"""Field name for a result that is a JSON value other than an object."""
# Keys that a batch adds to the row of the data.
_ADDED_KEYS = ("hop_result", "hop_stats", "profile")
# Keys that identify a row. A result field of the same name does not replace them.
_IDENTITY = ("id", "tag", "difficulty")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Audit(msgspec.Struct):
    """One result.

    `status` is OK or ERROR: whether the function returned. `outcome` is the status that the function gave
    its answer, such as UNCERTAIN. An error has no `fields`. `raw` is the text of a result that is not JSON.
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
        """True if the function raised or timed out."""
        return self.status == "ERROR"

    def flat(self) -> dict[str, Any]:
        """Return one object: the row, with the result's fields over it. Id, tag and difficulty stay the row's."""
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
    """The content of a `hop_result` or `result` after all its wrappers are removed."""

    fields: dict[str, Any] = {}
    outcome: str | None = None
    raw: str | None = None


def read_audit(rec: Mapping[str, Any] | list[Any], key: str | None = None) -> Audit | None:
    """Return the result of a line, or None if the line has none. `key` is the task's key field."""
    if isinstance(rec, list):
        return _read_pair(rec) if is_pair(rec) else None
    if is_meta(rec) or is_observer_line(rec):
        return None
    if "hop_result" in rec or isinstance(rec.get("hop_stats"), dict):
        return _read_flat(rec)
    if isinstance(rec.get("input"), dict) and ("result" in rec or "error" in rec):
        return _read_view(rec)
    # These keys mark a line of the frontend's log.
    return None if rec.keys() >= {"ts", "level", "message"} else _read_plain(rec, key)


def read_json(text: str | bytes) -> Any:
    """Decode JSON, also the invalid JSON of Python's encoder. Raises ValueError for other text.

    NaN and infinities become null, and an unpaired surrogate becomes `?`.
    """
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError):
        pass  # the slow way below is needed for few lines
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    value = json.loads(text, parse_constant=lambda _: None)
    return _decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _input(rec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the input row inside the view's wrappers. A row with too many wrappers is returned unchanged."""
    try:
        return unwrap(dict(rec))
    except ValueError:
        return rec


def _read_pair(rec: list[Any]) -> Audit:
    """A bare `[status, result]` pair. It has no row. With status ERROR the second item is the error message."""
    if file_status(rec[0]) == "ERROR":
        return _with_error(Audit({}), rec[1], None)
    return _with_result(Audit({}), rec, None)


def _read_flat(rec: Mapping[str, Any]) -> Audit:
    stats, result = rec.get("hop_stats"), rec.get("hop_result")
    if not isinstance(stats, dict):
        stats = {}
    status, error = file_status(stats.get("status")), stats.get("error")
    audit = Audit(_row(rec), profile=_profile(rec), stats=stats)
    if status == "ERROR" or (not status and (_is_empty(result) or not _is_empty(error))):
        return _with_error(audit, error, result)
    return _with_result(audit, result, status if status not in {"", "OK"} else None)


def _read_view(rec: Mapping[str, Any]) -> Audit:
    """Read a line of the view. A non-empty error takes precedence over the result.

    An empty error counts only if the result is empty as well.
    """
    error, result = rec.get("error"), rec.get("result")
    audit = Audit(_row(_input(rec)), profile=_profile(rec))
    no_result = "result" not in rec or (error is not None and _is_empty(result))
    if no_result or not _is_empty(error):
        return _with_error(audit, error, result)
    return _with_result(audit, result, None)


def _read_plain(rec: Mapping[str, Any], key: str | None) -> Audit | None:
    """Read a line that has no `hop_result` and no `input`. Returns None if the line is an input row.

    With `key`, a line is a result only if it, or the JSON in its `result`, has this field.
    """
    audit = Audit(_row(rec), profile=_profile(rec))
    result = rec.get("result")
    if key is not None and key in rec:
        audit.fields = {name: rec[name] for name in audit.row if name not in _IDENTITY}
        return audit
    bracket = result.lstrip()[:1] if isinstance(result, str) else "[" if is_pair(result) else ""
    if bracket not in {"{", "["}:
        return None
    del audit.row["result"]
    _with_result(audit, result, None)
    has_fields = bool(audit.fields) if key is None else key in audit.fields
    return audit if has_fields and (bracket == "{" or audit.outcome is not None) else None


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _row(rec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rec.items() if name not in _ADDED_KEYS}


def _profile(rec: Mapping[str, Any]) -> str | None:
    """Return the profile of the line. A profile inside `input` belongs to an earlier run and is ignored."""
    profile = rec.get("profile")
    return profile if profile is None or isinstance(profile, str) else _text(profile)


def _with_error(audit: Audit, error: Any, result: Any) -> Audit:
    """Set the error message of an audit and its status to ERROR. Returns the audit."""
    audit.status = "ERROR"
    audit.error = NO_MESSAGE if _is_empty(error) else _text(error)
    # Rows of errors have no result: "null" in files of assay, null or an empty text in others.
    audit.raw = result if isinstance(result, str) and result not in ("", "null") else None
    return audit


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _with_result(audit: Audit, result: Any, outcome: str | None) -> Audit:
    """Set the fields and the outcome of an audit from a result. Returns the audit."""
    opened = _unwrap_result(result)
    audit.fields, audit.raw = opened.fields, opened.raw
    audit.outcome = opened.outcome or outcome
    audit.parse_error = opened.raw is not None
    return audit


def _unwrap_result(value: Any) -> _OpenedResult:
    """Remove wrappers until fields appear: JSON as text, `[status, result]` pairs, and nested `result` texts.

    MAX_WRAPPERS limits the depth, because a file may nest wrappers without end.
    """
    opened = _OpenedResult()
    for depth in range(MAX_WRAPPERS):
        if isinstance(value, str):
            try:
                value = read_json(value) if value.strip() else None
            except (ValueError, RecursionError):
                # Not JSON. At depth 0, or inside a [status, result] pair, this is a parse error. Deeper, the text
                # was itself read from JSON, so it is a valid value.
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
    """Return the `result` of an object if it is a pair, or an object or pair as text. Else None."""
    inner = value.get("result")
    if isinstance(inner, str) and inner.lstrip()[:1] in {"{", "["}:
        try:
            opened = read_json(inner)
        except (ValueError, RecursionError):
            return None
        return opened if isinstance(opened, dict) or is_pair(opened) else None
    return inner if is_pair(inner) else None
