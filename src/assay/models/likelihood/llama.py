"""Likelihoods from llama.cpp: the model is forced to generate the tokens and reports their log-probabilities.

    for tokens in tokenize_request(server, "The sky is", " blue", max_tokens=8192, rolling=False):
        LlamaLikelihood(server, stop, reuse_prompt=True).measure(tokens)

llama.cpp has no `echo` as vLLM has. Instead, a grammar of token ids allows exactly the wanted tokens, and
llama.cpp reports log-probabilities as they were before the grammar was applied. For control tokens, and for
tokens that are only part of a character, llama.cpp reports nothing. These are looked up in the list of the
whole vocabulary, which takes about a second per token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http.client import HTTPConnection, HTTPException
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.core.errors import ModelError
from assay.core.types import Failure, Usage
from assay.files.excerpt import cut_end
from assay.models.likelihood import spans
from assay.models.likelihood.spans import Ids, Likelihood, MeasuredSpan, TokenSpan
from assay.models.llama.server import AddChunk, Generation, StopFlag, native_code

# A `logprobs` larger than any vocabulary makes llama.cpp list every token.
WHOLE_VOCABULARY = 10_000_000
# Something must be generated to get the list. Any text will do that is a whole character.
LOOKUP_GRAMMAR = 'root ::= "a"'
# Tokenizing is fast. The limit is for a server that hangs.
TOKENIZE_SECONDS = 60.0


class LlamaBackend(Protocol):
    """llama.cpp's server, in this process or another one."""

    key: str

    @property
    def address(self) -> str:
        """Host and port of its HTTP paths."""
        ...

    def complete(self, body: dict[str, Any], add_chunk: AddChunk) -> None:
        """Generate after a prompt. Passes the parts of the reply, or an error, to `add_chunk`."""
        ...


class SpanTokens(NamedTuple):
    """A span to measure. `unforceable` has those of its tokens that a grammar cannot force."""

    span: TokenSpan
    unforceable: frozenset[int]


class TokenLogprob(NamedTuple):
    """The log-probability of one token, and whether no other token was more likely."""

    logprob: float
    is_best: bool


class LlamaLikelihood:
    """Measures spans. With `reuse_prompt` llama.cpp keeps its computation for the next prompt with the same start."""

    def __init__(self, server: LlamaBackend, stop: StopFlag, *, reuse_prompt: bool) -> None:
        self._server = server
        self._stop = stop
        self._reuse_prompt = reuse_prompt

    def measure(self, tokens: SpanTokens) -> MeasuredSpan:
        """Return the likelihood of a span. Blocks; runs in a thread."""
        context, scored = tokens.span
        results: list[TokenLogprob] = []
        with native_code(self._stop):
            # Runs of forceable tokens take one request each, unforceable tokens one request per token.
            for unforceable, group in groupby(scored, tokens.unforceable.__contains__):
                prompt = context + scored[: len(results)]
                ids = list(group)
                results += self.look_up(prompt, ids) if unforceable else self._force(prompt, ids)
        logprob = spans.sum_in_order(result.logprob for result in results)
        likelihood = Likelihood(logprob, all(result.is_best for result in results))
        return MeasuredSpan(likelihood, Usage(len(context), len(scored)))

    def _force(self, prompt: Ids, ids: Ids) -> list[TokenLogprob]:
        grammar = "root ::= " + " ".join(f"<[{token_id}]>" for token_id in ids)
        entries = self.generate(prompt, {"grammar": grammar, "max_tokens": len(ids), "logprobs": 1})
        if [entry["id"] for entry in entries] != ids:
            failure = Failure("server_error", "llama.cpp generated other tokens than the grammar allows")
            raise ModelError(failure, retry=True)
        return [_token_logprob(entry["logprob"], entry["top_logprobs"]) for entry in entries]

    def look_up(self, prompt: Ids, ids: Ids) -> list[TokenLogprob]:
        """Return the log-probability of each token, from the list of the whole vocabulary."""
        results = []
        for position, token_id in enumerate(ids):
            settings = {"grammar": LOOKUP_GRAMMAR, "max_tokens": 1, "logprobs": WHOLE_VOCABULARY}
            (entry,) = self.generate(prompt + ids[:position], settings)
            vocabulary = entry["top_logprobs"]
            logprob = next(item["logprob"] for item in vocabulary if item["id"] == token_id)
            results.append(_token_logprob(logprob, vocabulary))
        return results

    def generate(self, prompt: Ids, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """Generate after a prompt. Returns one log-probability entry for each generated token."""
        generation = Generation(self._stop)
        body = {
            "prompt": prompt,
            "temperature": 0.0,
            "seed": 0,
            "cache_prompt": self._reuse_prompt,
            **settings,
        }
        if not self._stop.is_set:
            generation.run(self._server.complete, body)
        generation.response()
        return generation.logprobs


def _token_logprob(logprob: float, top_logprobs: list[dict[str, Any]]) -> TokenLogprob:
    # The list is sorted, most likely first. Several tokens may share the highest value; each counts as best.
    return TokenLogprob(logprob, is_best=logprob >= top_logprobs[0]["logprob"])


class LlamaToken(NamedTuple):
    """A token. It is forceable unless it is a control token or only part of a character."""

    id: int
    forceable: bool


def tokenize_request(
    server: LlamaBackend, prompt: str, continuation: str, max_tokens: int, *, rolling: bool
) -> Iterator[SpanTokens]:
    """Return the spans of a request, tokenized as lm-evaluation-harness does.

    Prompt and continuation are tokenized together. The scored tokens begin after as many tokens as the prompt
    alone has.
    """
    tokens = tokenize(server, prompt + continuation)
    ids = [token.id for token in tokens]
    unforceable = frozenset(token.id for token in tokens if not token.forceable)
    token_spans: Iterable[TokenSpan]
    if rolling:
        token_spans = spans.rolling_windows(ids, _prefix_token(server), max_tokens - 1)
    elif prompt:
        # The BOS token, for models whose tokenizer puts one before every text. Otherwise an empty list.
        first = _request(server, "POST", "/tokenize", {"content": "", "add_special": True})["tokens"][:1]
        prompt_ids = [token.id for token in tokenize(server, prompt)]
        token_spans = [spans.span_after_prompt(first + prompt_ids, first + ids)]
    else:
        token_spans = [spans.span_after_prefix(ids, _prefix_token(server))]
    for span in token_spans:
        yield SpanTokens(spans.truncate_left(span, max_tokens), unforceable)


def tokenize(server: LlamaBackend, text: str) -> list[LlamaToken]:
    """Return the tokens of a text. Names of control tokens in it, such as <|im_end|>, become control tokens."""
    tokens = _tokenize(server, text, parse_special=True)
    literal = _tokenize(server, text, parse_special=False)
    if tokens == literal:
        return tokens
    # The text names control tokens: those that do not occur in the literal reading. They cannot be forced.
    literal_ids = {token.id for token in literal}
    return [LlamaToken(token.id, token.forceable and token.id in literal_ids) for token in tokens]


def _tokenize(server: LlamaBackend, text: str, *, parse_special: bool) -> list[LlamaToken]:
    body = {"content": text, "add_special": False, "parse_special": parse_special, "with_pieces": True}
    tokens = []
    for token in _request(server, "POST", "/tokenize", body)["tokens"]:
        # The piece of a partial character is a list of bytes, that of a control token an empty text.
        forceable = isinstance(token["piece"], str) and token["piece"] != ""
        tokens.append(LlamaToken(token["id"], forceable))
    return tokens


def _prefix_token(server: LlamaBackend) -> int:
    """Return the token that precedes a text without a prompt: BOS, else EOS."""
    properties = read_properties(server)
    for name in ("bos_token", "eos_token"):
        text = properties.get(name)
        if text:
            return _tokenize(server, text, parse_special=True)[0].id
    raise ModelError(
        Failure("unsupported", "the model has no BOS or EOS token, so a text without a prompt cannot be scored")
    )


def read_properties(server: LlamaBackend) -> dict[str, Any]:
    """Return the server's description of itself: its special tokens, its chat template, the context of a slot."""
    properties: dict[str, Any] = _request(server, "GET", "/props", None)
    return properties


def _request(server: LlamaBackend, method: str, path: str, body: Any) -> Any:
    """Send a request to llama.cpp's port. Used for the tokenizer, which the Python binding lacks."""
    connection = HTTPConnection(server.address, timeout=TOKENIZE_SECONDS)
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, msgspec.json.encode(body) if body else None, headers)
        with connection.getresponse() as reply:
            status = reply.status
            content = reply.read()
    except (OSError, HTTPException) as error:
        raise ModelError(Failure("connection", f"llama.cpp's {path}: {error}"), retry=True) from None
    finally:
        connection.close()
    if status != 200:
        words = cut_end(repr(content), 200)
        raise ModelError(Failure("rejected", f"llama.cpp's {path} answered {status}: {words}"))
    return msgspec.json.decode(content)
