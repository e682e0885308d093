"""Reads the responses of model endpoints: JSON, or the error that a status and its body mean.

    completion = decode_json(response, endpoint.base_url)

Every error is a ModelError. Its kind decides what happens to the case: `refusal` and `context_overflow` count against
the model and are final, `rate_limited` and `server_error` are tried again, `no_credit` stops the run, and the rest
fails the case until the next start.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.envfile import COMMON_KEY
from assay.core.errors import ModelError
from assay.core.types import Failure, Response
from assay.files.excerpt import cut_end
from assay.models.http.wire import HttpResponse

# One decoder for all replies: msgspec.json.decode would create one for each.
_decode = msgspec.json.Decoder().decode
# Endpoints name the reason in `code` or `type`, or only in the message. Each line has the words of one or more of them.
_POLICY_CODES = frozenset(
    {
        *(
            "content_filter",
            "content_policy_violation",
            "invalid_prompt",
            "moderation_blocked",
        ),  # OpenAI, Azure
        *("data_inspection_failed", "datainspectionfailed", "1301"),  # Qwen, GLM
    }
)
_MODERATION_WORDS = ("requires moderation", "input was flagged")  # OpenRouter
_POLICY_WORDS = (
    *("content management policy", "usage policy", "responsibleaipolicyviolation"),  # OpenAI, Azure
    *("content filtering policy", "content exists risk", "considered high risk"),  # Anthropic, DeepSeek, Kimi
    *_MODERATION_WORDS,
)
_POLICY_STATUSES = frozenset({400, 403, 422, 451})
_OVERFLOW_WORDS = (
    *("context length", "context_length", "maximum context", "too many tokens"),  # OpenAI, vLLM, SGLang
    *("maximum model length", "exceed_context_size", "available context size"),  # vLLM, llama.cpp
    *("prompt is too long", "exceed context limit", "context window"),  # Anthropic, OpenAI Responses
    *("input token count", "range of input length", "`inputs` tokens +"),  # Gemini, Qwen, TGI
)
# Codes of an account without credit. Anthropic and Qwen say it in the message of a 400.
_NO_CREDIT_CODES = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"),  # OpenAI
        *("insufficient_balance", "arrearage", "1113"),  # DeepSeek, Qwen, GLM
    }
)
_NO_CREDIT_WORDS = ("credit balance is too low", "insufficient balance", "overdue-payment")
_HINTS = {
    "no_credit": ". When there is credit again, the same command continues the run",
    "auth": ". Check the key in {key}, or in the variable that is named for this model",
    "not_found": ". Check the model's name and the base URL, which often ends with /v1",
}
# Characters of a reply that is not JSON: enough to recognise the page of a proxy or of another program.
_FIRST_WORDS = 120
# vLLM's words for a limit of the reply. If it exceeds the whole context, no prompt fits: that is a wrong parameter.
_LIMIT_TOO_LARGE = re.compile(r"too large: (\d+)\. .*?maximum context length is (\d+)", re.DOTALL)
_MAX_PAGE = 10_000
_HTML_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)


def decode_json(response: HttpResponse, where: str, key: str = COMMON_KEY) -> Any:
    """Return the JSON of a response with status 200. Raises the ModelError that any other response means.

    `key` is the variable with the API key, for the message about a wrong key.
    """
    if response.status != 200:
        raise status_error(response, where, key)
    try:
        return _decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not response.body.strip():
            raise bad_reply(where, "it has an empty body") from None
        words = cut_end(_error_text(response.body), _FIRST_WORDS)
        raise bad_reply(where, f"it is not JSON. It begins with: {words}") from None


def bad_reply(where: str, why: str) -> ModelError:
    """Build the error for a response with status 200 that cannot be used. A retry may help."""
    return ModelError(Failure("bad_reply", f"{where} sent a reply that cannot be used: {why}"), retry=True)


def refusal(message: str, reply: Response) -> ModelError:
    """Build the error for a reply that is a refusal. It keeps the tokens and the price, which were billed.

    A reply without both was not billed, as far as anyone knows: Gemini counts no tokens of a prompt that it blocks.
    """
    usage = reply.usage
    billed = reply.cost is not None or (usage is not None and (usage.input or usage.output))
    return ModelError(Failure("refusal", message), response=reply if billed else None)


def status_error(response: HttpResponse, where: str, key: str = COMMON_KEY) -> ModelError:
    """Build the error for a status other than 200: its kind, and whether a retry may help."""
    status = response.status
    text = _error_text(response.body)
    # OpenAI answers 429 to an account without credit. No wait helps there.
    if status == 402 or (status in (400, 403, 429) and _is_no_credit(response.body)):
        kind = "no_credit"
    # Anthropic answers 529 if it is overloaded: fewer calls at once help, as with 429.
    elif status in (429, 529):
        kind = "rate_limited"
    # 408 and 409 are the server's own trouble (timeout, lock conflict). OpenAI's SDK retries them too.
    elif status in (408, 409) or status >= 500:
        kind = "server_error"
    elif status in _POLICY_STATUSES and _is_policy(response.body, status):
        kind = "refusal"
    # Gemini answers 400 to a wrong key.
    elif status in (401, 403) or (status == 400 and b"API_KEY_INVALID" in response.body):
        kind = "auth"
    elif status == 404:
        kind = "not_found"
    elif status in (400, 413, 422) and _is_overflow(response.body, text):
        kind = "context_overflow"
    else:
        kind = "rejected"
    hint = _HINTS.get(kind, "").format(key=key)
    # The text of a page often ends with a full stop, and a hint begins with one.
    message = f"{where} answered {status}: {text.rstrip('. ') if hint else text}{hint}"
    failure = Failure(kind, message, http=status)
    if kind in ("rate_limited", "server_error"):
        wait = _retry_after(response.headers)
        return ModelError(failure, retry=True, wait=_retry_delay(response.body) if wait is None else wait)
    return ModelError(failure)


def error_kind(code: str, message: str) -> str:
    """Return the kind of failure for an error in a reply with status 200, as OpenAI's Responses API has them."""
    if code.lower() in _POLICY_CODES or any(words in message.lower() for words in _POLICY_WORDS):
        return "refusal"
    if any(words in f"{code} {message}".lower() for words in _OVERFLOW_WORDS):
        return "context_overflow"
    if code.lower() in _NO_CREDIT_CODES:
        return "no_credit"
    return {"rate_limit_exceeded": "rate_limited", "server_error": "server_error"}.get(code, "rejected")


def reply_error(error: Any, where: str, key: str = COMMON_KEY) -> ModelError:
    """Build the error for an `error` in a reply with status 200, as OpenRouter sends it when a vendor behind it failed.

    A code that is a status means what the status means. An error of an unknown kind is tried again.
    """
    body = msgspec.json.encode({"error": error})
    fields = _read_error(body)
    code = str(fields.code if fields.code is not None else fields.type)
    if re.fullmatch("[45][0-9][0-9]", code):
        meant = status_error(HttpResponse(int(code), {}, body), where, key)
        words = meant.failure.message.removeprefix(f"{where} answered {code}: ")
        failure = Failure(meant.failure.kind, f"{where} answered 200 with the error {code}: {words}")
        return ModelError(failure, retry=meant.retry, wait=meant.wait)
    text = _error_text(body)
    kind = error_kind(code, text)
    # A request that the endpoint rejects has another status than 200.
    kind = "server_error" if kind == "rejected" else kind
    failure = Failure(kind, f"{where} answered 200 with an error: {text}")
    return ModelError(failure, retry=kind in ("rate_limited", "server_error"))


def _is_policy(body: bytes, status: int) -> bool:
    """Return whether an error body says that a filter or a usage policy refused the request."""
    error = _read_error(body)
    if {str(error.code).lower(), str(error.type).lower()} & _POLICY_CODES:
        return True
    # With 403, other words about policies mean that the key or the organization may not use the model at all.
    all_words = _MODERATION_WORDS if status == 403 else _POLICY_WORDS
    return any(words in str(error.message).lower() for words in all_words)


def _is_no_credit(body: bytes) -> bool:
    """Return whether an error body says that the account has no credit."""
    error = _read_error(body)
    if {str(error.code).lower(), str(error.type).lower()} & _NO_CREDIT_CODES:
        return True
    return any(words in str(error.message).lower() for words in _NO_CREDIT_WORDS)


def _is_overflow(body: bytes, text: str) -> bool:
    """Return whether an error says that the prompt does not fit into the model's context."""
    limit = _LIMIT_TOO_LARGE.search(text)
    if limit is not None and int(limit[1]) >= int(limit[2]):
        return False
    words_of_error = f"{_read_error(body).code} {text}".lower()
    return any(words in words_of_error for words in _OVERFLOW_WORDS)


def _retry_delay(body: bytes) -> float | None:
    """Return the seconds in an error body of Gemini, which sends `"retryDelay": "21s"` instead of a header."""
    for detail in _read_error(body).details:
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith("RetryInfo"):
            match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", "")))
            return float(match[1]) if match else None
    return None


def _read_error(body: bytes) -> _ErrorFields:
    """Return the error in a body: in `error`, or in the body itself as SGLang has it. Empty if there is none.

    An `error` that is a text is the message.
    """
    try:
        outer = msgspec.json.decode(body, type=_ErrorBody)
        if isinstance(outer.error, str):
            return _ErrorFields(outer.code, outer.type, outer.error, outer.details)
        return outer if outer.error is msgspec.UNSET else msgspec.convert(outer.error, _ErrorFields)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return _ErrorFields()


class _ErrorFields(msgspec.Struct):
    code: Any = None
    type: Any = None
    message: Any = None
    details: list[Any] = []


class _ErrorBody(_ErrorFields):
    error: Any = msgspec.UNSET


def _error_text(body: bytes) -> str:
    """Return the message in an error body: `{"error": {"message": ...}}`, `{"error": ...}` or plain text."""
    try:
        error = msgspec.json.decode(body)
        if isinstance(error, dict):
            error = error.get("error", error)
        if isinstance(error, dict):
            error = error.get("message") or error
        text = str(error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body.decode("utf-8", "replace").strip()
        if text.startswith("<"):
            # Without a bound, a page of a million "<" would take hours.
            text = _HTML_TAG.sub(" ", cut_end(text, _MAX_PAGE))
    # Proxies send whole HTML pages. 300 characters are enough to recognise one.
    return cut_end(" ".join(text.split()), 300) or "nothing more"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, which holds a number or an HTTP date. None if it holds neither.

    They may be infinite. The caller waits no longer than --max-wait.
    """
    value = headers.get("Retry-After")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        from email.utils import parsedate_to_datetime  # here, because few endpoints send a date

        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return None
    return max(0.0, seconds) if not math.isnan(seconds) else None
