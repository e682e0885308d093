"""Lines of results in every shape, with what is read of each."""

from __future__ import annotations

import json
from typing import Any

FIELDS = {"score": 4, "label": "good"}
TEXT = json.dumps(FIELDS)
OK = {"retry_count": 0, "execution_path": [], "status": "OK"}
ERROR = {"retry_count": 0, "execution_path": [], "status": "ERROR", "error": "timeout"}


def flat(result: Any, stats: Any = OK, **more: Any) -> dict[str, Any]:
    return {"id": 1, "tag": "t", "question": "q", "hop_result": result, "hop_stats": stats, **more}


OPENED: dict[str, tuple[Any, dict[str, Any], str | None]] = {
    "text": (flat(TEXT), FIELDS, None),
    "object": (flat(FIELDS), FIELDS, None),
    "pair": (flat(["UNCERTAIN", TEXT]), FIELDS, "UNCERTAIN"),
    "pair of an object": (flat(["OK", FIELDS]), FIELDS, "OK"),
    "pair as text": (flat(json.dumps(["FAIL", TEXT])), FIELDS, "FAIL"),
    "pair with the name of an enum": (flat(["HopStatus.LACK_OF_INFO", TEXT]), FIELDS, "LACK_OF_INFO"),
    "pair of a list": (flat(["UNCERTAIN", [1]]), {"result": [1]}, "UNCERTAIN"),
    "pair of a number as text": (flat('["FAIL", 3]'), {"result": 3}, "FAIL"),
    "a word and a number are no pair": (flat(["ok", 3]), {"result": ["ok", 3]}, None),
    "pair with an unknown status": (flat(["ODD", TEXT]), FIELDS, "ODD"),
    "two texts are no pair": (flat(["USA", "UK"]), {"result": ["USA", "UK"]}, None),
    "pair without a result": (flat(["LACK_OF_INFO", None]), {}, "LACK_OF_INFO"),
    "nested result": (flat(json.dumps({"result": TEXT})), FIELDS, None),
    "nested pair": (flat(json.dumps({"result": ["FAIL", TEXT]})), FIELDS, "FAIL"),
    "nested beside more": (flat({"n": 1, "result": TEXT}), {"n": 1, **FIELDS}, None),
    "text twice": (flat(json.dumps(TEXT)), FIELDS, None),
    "a field called result": (flat('{"result": "positive"}'), {"result": "positive"}, None),
    "a list called result": (flat('{"result": "[1, 2]"}'), {"result": "[1, 2]"}, None),
    "number": (flat("42"), {"result": 42}, None),
    "JSON string": (flat('"True"'), {"result": "True"}, None),
    "null and OK": (flat(None), {}, None),
    "empty and OK": (flat(""), {}, None),
    "NaN is null": (flat('{"score": NaN}'), {"score": None}, None),
    "status of a function": (flat(TEXT, {"status": "FAIL"}), FIELDS, "FAIL"),
    "unknown status": (flat(TEXT, {"status": "later"}), FIELDS, "LATER"),
    "no stats": (flat(TEXT, None), FIELDS, None),
    "stats of another type": (flat(TEXT, "fast"), FIELDS, None),
    "view": ({"input": {"id": 1}, "result": TEXT}, FIELDS, None),
    "view with an object": ({"input": {}, "result": FIELDS}, FIELDS, None),
    "view with a pair": ({"input": {}, "result": ["FAIL", TEXT]}, FIELDS, "FAIL"),
    "view without result": ({"input": {}, "result": None}, {}, None),
    "view with no error": ({"input": {}, "result": TEXT, "error": None}, FIELDS, None),
    "view with an empty error": ({"input": {}, "result": TEXT, "error": ""}, FIELDS, None),
    "hop_result beside inputs called input and error": (flat(TEXT, input={}, error="e"), FIELDS, None),
    "plain result": ({"id": 1, "result": TEXT}, FIELDS, None),
    "plain pair": ({"id": 1, "result": ["OK", TEXT]}, FIELDS, "OK"),
    "bare pair": (["OK", TEXT], FIELDS, "OK"),
    "bare pair of an object": (["UNCERTAIN", FIELDS], FIELDS, "UNCERTAIN"),
    "bare pair without a result": (["LACK_OF_INFO", None], {}, "LACK_OF_INFO"),
}


ERRORS: dict[str, tuple[Any, str]] = {
    "null": (flat(None, ERROR), "timeout"),
    "bare pair": (["ERROR", "timeout"], "timeout"),
    "empty": (flat("", ERROR), "timeout"),
    "result beside it": (flat(TEXT, ERROR), "timeout"),
    "no result at all": ({"id": 1, "hop_stats": ERROR}, "timeout"),
    "lower case": (flat(None, {"status": "error", "error": "e"}), "e"),
    "no message": (flat(None, {"status": "ERROR"}), "(no message)"),
    "an object": (flat(None, {"status": "ERROR", "error": {"code": 5}}), '{"code":5}'),
    "neither stats nor result": (flat(None, None), "(no message)"),
    "error without status": (flat(TEXT, {"error": "broken"}), "broken"),
    "view": ({"input": {"id": 1}, "error": "timeout"}, "timeout"),
    "view, error wins": ({"input": {}, "result": TEXT, "error": "timeout"}, "timeout"),
    "view, an object": ({"input": {}, "result": TEXT, "error": {"code": 5}}, '{"code":5}'),
    "view, empty": ({"input": {}, "error": ""}, "(no message)"),
    "view, empty beside no result": ({"input": {}, "result": None, "error": ""}, "(no message)"),
}


NO_RESULTS: dict[str, dict[str, Any]] = {
    "meta": {"_type": "meta", "profile": "a", "hop_result": TEXT},
    "run_start": {"type": "run_start", "run_id": 1, "input": {}, "hoplet": "h"},
    "run_end": {"type": "run_end", "run_id": "r", "result": TEXT, "input": {}},
    "step": {"type": "step", "run_id": "r", "op": "hop_get"},
    "frontend": {"ts": 1.5, "level": "error", "message": "m", "context": {}, "result": TEXT},
    "input": {"id": 1, "tag": "t", "question": "q", "expected_score": 3},
    "input with a dict": {"id": 1, "input": {"a": 1}},
    "input with a text called result": {"id": 1, "tag": "t", "result": "won"},
    "input with a list called result": {"id": 1, "tag": "t", "result": "[1, 2]"},
    "empty": {},
}
