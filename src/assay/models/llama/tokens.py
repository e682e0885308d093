"""Texts as tokens of the embedded model. llama.cpp tells them only over its port, so it is asked there."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import ModelError
from assay.core.types import Failure
from assay.models.likelihood import spans
from assay.models.likelihood.spans import Span
from assay.models.llama.engine import Engine

_SECONDS = 60.0
_SLASHES = 2


class Token(NamedTuple):
    """`plain` tokens are whole characters; others are control tokens or parts of a character."""

    id: int
    plain: bool


class Asked(NamedTuple):
    """What is measured at a time, and which of its tokens are not plain."""

    span: Span
    odd: frozenset[int]


def asked(engine: Engine, prompt: str, continuation: str, most: int, *, rolling: bool) -> Iterator[Asked]:
    """Tokenised as the harness does: both texts together, cut where the prompt's own tokens end."""
    both = _tokens(engine, prompt + continuation)
    ids, first = [token.id for token in both], _first(engine)
    odd = frozenset(token.id for token in both if not token.plain)
    if rolling:
        found = spans.windows(ids, _prefix(engine), most - 1)
    elif prompt:
        own = [token.id for token in _tokens(engine, prompt)]
        found = iter([spans.after_prompt(first + own, first + ids)])
    else:
        found = iter([spans.after_prefix(ids, _prefix(engine))])
    for span in found:
        yield Asked(spans.fitted(span, most), odd)


def _tokens(engine: Engine, text: str) -> list[Token]:
    parsed, literal = (_pieces(engine, text, special=special) for special in (True, False))
    if parsed != literal:  # texts such as <|im_end|> stand for control tokens, which no spelling gives
        known = {id_ for id_, _ in literal}
        return [Token(id_, plain and id_ in known) for id_, plain in parsed]
    return [Token(id_, plain) for id_, plain in parsed]


def _pieces(engine: Engine, text: str, *, special: bool) -> list[tuple[int, bool]]:
    body = {"content": text, "add_special": False, "parse_special": special, "with_pieces": True}
    found = _ask(engine, "POST", "/tokenize", body)["tokens"]
    return [(token["id"], isinstance(token["piece"], str) and token["piece"] != "") for token in found]


def _first(engine: Engine) -> list[int]:
    """The token that this model wants before every text, if it wants one."""
    ids: list[int] = _ask(engine, "POST", "/tokenize", {"content": "", "add_special": True})["tokens"]
    return ids[:1]


def _prefix(engine: Engine) -> int:
    """The token before a text without prompt: the model's first token, else its last one."""
    about = _ask(engine, "GET", "/props", None)
    for text in filter(None, (about.get("bos_token"), about.get("eos_token"))):
        return _pieces(engine, text, special=True)[0][0]
    raise ModelError(
        Failure("unsupported", "this model has neither a first nor a last token for a text without prompt")
    )


def _ask(engine: Engine, method: str, path: str, body: Any) -> Any:
    address = engine.server.listening_address.split("/")[_SLASHES]
    connection = HTTPConnection(address, timeout=_SECONDS)
    headers = {"Authorization": f"Bearer {engine.key}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, msgspec.json.encode(body) if body else None, headers)
        with connection.getresponse() as reply:
            status, said = reply.status, reply.read()
    except (OSError, HTTPException) as error:
        raise ModelError(Failure("connection", f"llama.cpp's {path}: {error}"), retry=True) from None
    finally:
        connection.close()
    if status != 200:
        raise ModelError(Failure("rejected", f"llama.cpp's {path} answered {status}: {said[:200]!r}"))
    return msgspec.json.decode(said)
