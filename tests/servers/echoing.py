"""An endpoint on loopback that echoes prompts with log-probabilities, and the tokenizer vLLM has beside it.

The log-probability of a token is a function of the twelve tokens before it: the one that lm-evaluation-harness
was run against for `tests/golden/lm_eval/out/d_mc`. Tokens are bytes, and two special ones; or words, where a
test wants tokens that reach over a boundary.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from aiohttp import web

from servers.running import RunningServer

BOS, EOS = "<|bos|>", "<|eos|>"
SPECIAL = {EOS: 256, BOS: 257}
FULL_STOP = ord(".")
"""The token that is always generated."""


class Piece(NamedTuple):
    """A token, and the place of the character it begins in."""

    id: int
    offset: int


def byte_pieces(text: str) -> list[Piece]:
    """One token for each byte, and one for each special token."""
    pieces, at = [], 0
    for part in re.split(r"(<\|eos\|>|<\|bos\|>)", text):
        if part in SPECIAL:
            pieces.append(Piece(SPECIAL[part], at))
        else:
            pieces += [Piece(byte, at + i) for i, letter in enumerate(part) for byte in letter.encode()]
        at += len(part)
    return pieces


def word_pieces(text: str) -> list[Piece]:
    """One token for each word, with a space before it."""
    return [Piece(zlib.crc32(match[0].encode()), match.start()) for match in re.finditer(r" ?\w+| ?[^\w ]+| +", text)]


def byte_text(ids: list[int]) -> str:
    """The text of byte tokens and special ones."""
    names = {token: name.encode() for name, token in SPECIAL.items()}
    return b"".join(names.get(token) or bytes([token]) for token in ids).decode("utf-8", "replace")


def logprob(before: list[int], token: int) -> tuple[float, bool]:
    """What the model says of a token, and whether it would have said another."""
    digest = hashlib.sha256(f"{tuple(before)}\x1f{token}".encode()).digest()
    number = int.from_bytes(digest[:8], "big")
    return -((number % 4000) / 1000.0) - 0.001, (number >> 20) % 8 == 0


def scores(ids: list[int]) -> tuple[list[float | None], list[dict[str, float] | None]]:
    """`token_logprobs` and `top_logprobs`; the first token has none."""
    logprobs: list[float | None] = [None]
    tops: list[dict[str, float] | None] = [None]
    for i, token in enumerate(ids[1:], start=1):
        value, beaten = logprob(ids[max(0, i - 12) : i], token)
        logprobs.append(round(value, 6))
        tops.append({f"t{token}": round(value, 6)} | ({"other": round(value / 2, 6)} if beaten else {}))
    return logprobs, tops


class EchoServer(RunningServer):
    """Keeps every path and body. `without` names what it does not offer: a path, `echo` or `offsets`.

    Without `characters` its offsets count bytes.
    """

    def __init__(self, *without: str, pieces: Callable[[str], list[Piece]] = byte_pieces, info: Any = None) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.without = set(without)
        self._pieces = pieces
        self._info = {"bos_token": BOS, "eos_token": EOS} if info is None else info

    def bodies(self, path: str) -> list[Any]:
        """Everything that was posted there."""
        return [body for asked, body in self.asked if asked == path]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read() or b"null")
        self.asked.append((request.path, body))
        answers: dict[str, Callable[[], Any]] = {
            "/tokenizer_info": lambda: self._info,
            "/tokenize": lambda: {"tokens": [piece.id for piece in self._pieces(body["prompt"])]},
            "/detokenize": lambda: {"prompt": byte_text(body["tokens"])},
            "/v1/completions": lambda: self._completion(body),
        }
        if request.path in self.without or request.path not in answers:
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        return web.json_response(answers[request.path]())

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """Beside the prompt, one token is generated. Ids in a list of lists, or a text."""
        prompt = body["prompt"]
        is_text = isinstance(prompt, str)
        pieces = self._pieces(prompt) if is_text else [Piece(token, i) for i, token in enumerate(prompt[0])]
        generated = Piece(FULL_STOP, len(prompt) if is_text else len(pieces))
        pieces = [*(pieces if "echo" not in self.without else []), generated]
        logprobs, tops = scores([piece.id for piece in pieces])
        offsets = [piece.offset if "offsets" not in self.without else -1 for piece in pieces]
        if "characters" in self.without:
            offsets = list(range(len(pieces)))
        listed = {"token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}
        text = f"{prompt if is_text and 'echo' not in self.without else ''}."
        usage = {"prompt_tokens": len(pieces) - 1, "completion_tokens": 1}
        return {"choices": [{"index": 0, "text": text, "logprobs": listed}], "usage": usage}
