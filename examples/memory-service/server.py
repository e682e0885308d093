"""A memory as a service: the reference of the REST contract in docs/memories.md, with the standard library alone.

    python examples/memory-service/server.py --port 8765

It lets the run's model restate each message as facts, and finds them by the words that they share with a question.
"""

import argparse
import json
import re
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
MODEL_URLS: dict[str, str] = {}  # by conversation
FACTS: dict[str, list[Json]] = {}
PROMPT = "Restate what is said as facts, one per line.\n<messages>\n{text}\n</messages>\nToday is {date}."


def answer(path: str, body: Json) -> Json:
    """Return the reply to one of the four requests."""
    name = body["conversation"]
    if path == "/reset":
        MODEL_URLS[name], FACTS[name] = body["model_url"], []
    elif path == "/add":
        for message in body["messages"]:
            lines = [f"{turn['role']}: {turn['text']}" for turn in message["turns"]]
            text = "\n".join(lines) or f"{message['speaker']}: {message['text']}"
            fact = ask(MODEL_URLS[name], PROMPT.format(text=text, date=message["date"] or "unknown"))
            item = {"id": f"fact-{len(FACTS[name])}", "text": fact, "sources": [message["id"]]}
            FACTS[name].append(item | {"session": message["session"], "date": message["date"]})
    elif path == "/search":
        hits = [fact | {"score": len(words(body["query"]) & words(fact["text"]))} for fact in FACTS[name]]
        return {"hits": sorted(hits, key=lambda hit: -hit["score"])[: body["k"]]}
    return {"items": FACTS[name]}


def words(text: str) -> set[str]:
    """Return the words of a text."""
    return set(re.findall(r"\w+", text.lower()))


def ask(url: str, prompt: str) -> str:
    """Ask the run's model, which a request without `model` goes to. The run logs the call."""
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    text: str = json.load(opener.open(request))["choices"][0]["message"]["content"]
    return text


class Handler(BaseHTTPRequestHandler):
    """Answers POST with JSON."""

    def do_POST(self) -> None:
        """Answer with 502 if the model fails: the run then repeats the conversation."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, reply = 200, json.dumps(answer(self.path, body)).encode()
        except urllib.request.HTTPError as error:
            status, reply = 502, error.read()
        self.send_response(status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8765)
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
