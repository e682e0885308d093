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
from assay.core.types import Request, SdkRequest

# Parameters that endpoints and lm-evaluation-harness know. Others are sent as they are, unless they look like a typo.
KNOWN = (
    *(
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "top_p",
        "stop",
        "seed",
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
    "dimensions",
)
# A name this similar to a known one is refused. The bar is higher than that of suggestions (`similar_names`), because
# servers have parameters of their own: `top_a` is no misspelled `top_p`.
_SIMILARITY = 0.85
# Headers and fields that carry a secret: Authorization, X-Api-Key, Ocp-Apim-Subscription-Key, api_key, X-Company-Auth.
# Not max_tokens and prompt_cache_key.
_SECRET = re.compile(
    r"(.*[-_])?(authorization|auth|cookie|secret|password|passwd|credentials?|token)"
    r"|(.*[-_])?(api|access|subscription|secret|x)[-_]?key",
    re.IGNORECASE,
)
# Fields of a request that assay sets itself. Another model or other messages would be another evaluation.
_RESERVED = ("model", "messages", "prompt", "input", "stream", "n")
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}", re.ASCII)


def check_params(params: dict[str, Any], flag: str) -> dict[str, Any]:
    """Return the parameters with a single stop string as a list.

    Raises UsageError for a name that is nearly a known one, and for a header that contains a secret: parameters are
    saved in the run folder.
    """
    from difflib import get_close_matches  # imported here because most commands pass no parameters

    for name in ("headers", "extra_body"):
        if not isinstance(params.get(name) or {}, dict):
            raise UsageError(f'{flag}: {name} is a mapping, such as {name}={{"name": "value"}}; not {params[name]!r}')
    for name in [*params, *(params.get("extra_body") or {})]:
        if not str(name).strip():
            raise UsageError(f"{flag}: a parameter has no name; write name=value")
        if name in _RESERVED:
            raise UsageError(f"{flag}: {name!r} is not a parameter; assay sets it itself")
    for name in params:
        if name not in KNOWN and (near := get_close_matches(name, KNOWN, n=1, cutoff=_SIMILARITY)):
            raise UsageError(
                f"{flag}: there is no parameter {name!r}; did you mean {near[0]!r}? "
                f'To send it all the same: extra_body={{"{name}": …}}'
            )
    if problem := secret_problem(params):
        raise UsageError(f"{flag}: {problem}")
    if isinstance(params.get("stop"), str):
        return {**params, "stop": [params["stop"]]}
    return params


def secret_problem(params: Mapping[str, Any]) -> str:
    """Return the message about a secret among the parameters, which would be in the run folder. Empty without one."""
    headers, fields = params.get("headers"), params.get("extra_body")
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if _SECRET.fullmatch(str(name)) and not _VARIABLE.search(str(value)):
            return (
                f"the header {name!r} would be saved in the run folder. Put its value into an environment "
                f'variable and name the variable: headers={{"{name}": "$NAME"}}'
            )
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if _SECRET.fullmatch(str(name)) and isinstance(value, str):
            return f"{name!r} of extra_body would be saved in the run folder. Send secrets in headers, as variables"
    return ""


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
        if over.get(name) is not None and other not in over:
            merged.pop(other, None)
    return {name: value for name, value in merged.items() if value is not None or name not in over}


def with_params(request: Request, params: dict[str, Any]) -> Request:
    """Return the request with the role's parameters. A likelihood has none.

    A chat or text request of another SDK gets them in its body. Its other requests, such as /embeddings, have none: the
    parameters are those of chat requests.
    """
    if request.continuation is not None:
        return request
    if request.sdk is None:
        return replace(request, params=merge(request.params, params))
    if not request.sdk.path.endswith("/completions"):
        return request
    return replace(request, sdk=merge_into_body(request.sdk, params))


def merge_into_body(sdk: SdkRequest, over: dict[str, Any]) -> SdkRequest:
    """Return the request of an SDK with the parameters of `over` in its body, and their headers instead of its own."""
    fields = {name: value for name, value in over.items() if name not in ("extra_body", "headers")}
    body = merge(sdk.body, {**fields, **(over.get("extra_body") or {})})
    return replace(sdk, body=body, headers=over.get("headers") or sdk.headers)
