"""Generation parameters of a role, as --gen-kwargs and --judge-kwargs pass them: checked, and laid over a request.

    params = check_params({"temperature": 1, "stop": "END"}, "--gen-kwargs")
    with_params(request, params)        # the same request with these parameters

The names are those of OpenAI's chat completions; providers of other APIs translate them. `extra_body` has further
fields of the request's body and `headers` has HTTP headers, as in OpenAI's SDK. A value of None removes a parameter
that assay would send by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.core.types import Request

# Parameters that endpoints and lm-evaluation-harness know. Others are sent as they are, unless they look like a typo.
KNOWN = (
    *(
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "top_p",
        "stop",
        "seed",
        "n",
        "logprobs",
        "top_logprobs",
    ),
    *(
        "reasoning_effort",
        "verbosity",
        "response_format",
        "extra_body",
        "headers",
        "service_tier",
        "logit_bias",
    ),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "top_k", "min_p", "top_a", "typical_p"),
    *(
        "max_gen_toks",
        "max_new_tokens",
        "until",
        "do_sample",
        "num_beams",
        "user",
        "tools",
        "tool_choice",
        "thinking",
    ),
)
# A name this similar to a known one is taken for a typo.
_SIMILARITY = 0.85
_SECRET_HEADER = re.compile(r"authorization|.*(api|auth|access)[-_]?(key|token)|cookie", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}", re.ASCII)


def check_params(params: dict[str, Any], flag: str) -> dict[str, Any]:
    """Return the parameters with a single stop string as a list.

    Raises UsageError for a name that is nearly a known one, and for a header that contains a secret: parameters are
    saved in the run folder.
    """
    from difflib import get_close_matches  # imported here because most commands pass no parameters

    for name in params:
        if name not in KNOWN and (near := get_close_matches(name, KNOWN, n=1, cutoff=_SIMILARITY)):
            raise UsageError(
                f"{flag}: there is no parameter {name!r}; did you mean {near[0]!r}? "
                f'To send it all the same: extra_body={{"{name}": …}}'
            )
    for name, kind in (("headers", dict), ("extra_body", dict)):
        if not isinstance(params.get(name) or {}, kind):
            raise UsageError(
                f'{flag}: {name} is a mapping, such as {name}={{"name": "value"}}; not {params[name]!r}'
            )
    for name, value in (params.get("headers") or {}).items():
        if _SECRET_HEADER.fullmatch(str(name)) and not _VARIABLE.search(str(value)):
            raise UsageError(
                f"{flag}: the header {name!r} would be saved in the run folder. Put its value into an environment "
                f'variable and name the variable: headers={{"{name}": "$NAME"}}'
            )
    if isinstance(params.get("stop"), str):
        return {**params, "stop": [params["stop"]]}
    return params


def header_variables(params: dict[str, Any]) -> set[str]:
    """Return the environment variables that the headers among the parameters name as `$NAME`."""
    values = (params.get("headers") or {}).values()
    return {match[1] or match[2] for value in values for match in _VARIABLE.finditer(str(value))}


def fill_variables(text: str, environ: Mapping[str, str]) -> str:
    """Return a header's value with each `$NAME` replaced by that environment variable.

    Raises UsageError if the variable is not set.
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in environ:
            raise UsageError(f"a header names the variable {name}, which is not set in the environment")
        return environ[name]

    return _VARIABLE.sub(value_of, text)


def merge(own: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters `own` with those of `over` laid over them. None removes one."""
    merged = {**own, **over}
    # Both limit the tokens of a reply, and endpoints refuse a request that has both.
    for name, other in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
        if over.get(name) is not None and name not in own:
            merged.pop(other, None)
    return {name: value for name, value in merged.items() if value is not None or name not in over}


def with_params(request: Request, params: dict[str, Any]) -> Request:
    """Return the request with the role's parameters. A likelihood has none.

    A request of another SDK (`{"path": …, "body": …}`, see `models/calling/foreign_sdk.py`) gets them in its body.
    """
    if request.continuation is not None:
        return request
    own = request.params
    if own.keys() != {"path", "body"}:
        return replace(request, params=merge(own, params))
    if not str(own["path"]).endswith("/completions"):
        return request  # such as /embeddings
    fields = {name: value for name, value in params.items() if name not in ("extra_body", "headers")}
    body = merge(own["body"], {**fields, **(params.get("extra_body") or {})})
    headers = {"headers": params["headers"]} if params.get("headers") else {}
    return replace(request, params={"path": own["path"], "body": body, **headers})
