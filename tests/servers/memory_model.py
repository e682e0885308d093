"""A model on loopback for memory systems: it fills the tools and JSON schemas that they send, and embeds texts.

    with MemoryModel() as server:
        run("--base-url", server.url)
        server.kinds        # Counter({"schema": 40, "embedding": 12, "text": 3})

Everything that it says is taken from the prompt: facts are the lines of the messages under consideration, names are
their speakers and longest words. Equal requests get equal replies. Usage counts words. By hand:
`python tests/servers/memory_model.py`, which prints the URL and serves until its standard input ends.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from servers.loopback import LoopbackServer

Schema = dict[str, Any]
SIZE = 64
# Where systems put the messages that a fact may come from: mem0, langmem, graphiti, the REST example and MGMemory.
_SECTIONS = (
    r".*\n\n## New Messages\n(.*)\n\n## Observation Date\n",
    r".*<session_([\w-]+)>\n(.*)\n</session_\1>",
    r".*<CURRENT[ _]MESSAGE>\n(.*?)\n</CURRENT[ _]MESSAGE>",
    r".*<messages[^>]*>\n(.*)\n</messages>",
)
_ROLE = re.compile(r"^(?:user|assistant|system): (?=[^:\n]{1,40}: )")
_SPEAKER = re.compile(r"^([^:\n]{1,40}): ")
_WORD = re.compile(r"[^\W\d_]{3,}")
_HEADER = re.compile(r"^=+ (Human|Ai|System) Message =+$")


class MemoryModel(LoopbackServer):
    """The server. `bodies` has every request, `kinds` how many there were of each kind."""

    def __init__(self) -> None:
        super().__init__(reply)

    @property
    def kinds(self) -> Counter[str]:
        """The number of requests by kind: embedding, tools, schema, json or text."""
        return Counter(map(kind, self.bodies))


def kind(body: dict[str, Any]) -> str:
    """What a request asks for."""
    if "input" in body:
        return "embedding"
    if body.get("tools"):
        return "tools"
    form = (body.get("response_format") or {}).get("type", "text")
    return {"json_schema": "schema", "json_object": "json"}.get(form, "text")


def reply(body: dict[str, Any]) -> tuple[int, Any]:
    """Return status and JSON for a request to /chat/completions or /embeddings."""
    if "input" in body:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        rows = [{"index": at, "object": "embedding", "embedding": vector(text)} for at, text in enumerate(texts)]
        tokens = sum(map(_tokens, texts))
        return 200, {"object": "list", "model": "fake", "data": rows, "usage": {"prompt_tokens": tokens}}
    prompt = "\n".join(str(message["content"]) for message in body["messages"] if message.get("content"))
    message: dict[str, Any] = {"role": "assistant", "content": None}
    match kind(body):
        case "tools":
            message["tool_calls"] = tool_calls(body["tools"], prompt)
        case "schema":
            schema = body["response_format"]["json_schema"]["schema"]
            message["content"] = json.dumps(fill(schema, prompt), ensure_ascii=False)
        case "json":
            message["content"] = json.dumps(json_object(prompt), ensure_ascii=False)
        case _:
            message["content"] = text(prompt)
    return 200, {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if body.get("tools") else "stop"}],
        "usage": {
            "prompt_tokens": (asked := _tokens(prompt)),
            "completion_tokens": (said := _tokens(json.dumps(message))),
            "total_tokens": asked + said,
        },
    }


def vector(text: str) -> list[float]:
    """A bag of words: each word has a place of its own, more or less."""
    row = [0.0] * SIZE
    for word in re.findall(r"\w+", text.lower()) or [""]:
        row[zlib.crc32(word.encode()) % SIZE] += 1.0
    return row


def _tokens(text: str) -> int:
    return len(text.split())


def section(prompt: str) -> str:
    """The part of a prompt that has the messages; the whole prompt if no system is known by its form."""
    for pattern in _SECTIONS:
        if found := re.match(pattern, prompt, re.DOTALL):
            return found[found.lastindex or 0]
    return prompt


def facts(prompt: str) -> list[str]:
    """The lines of the messages, as `speaker: text`, without repetitions."""
    lines: dict[str, None] = {}
    role = ""
    for raw in section(prompt).split("\n"):
        if header := _HEADER.match(raw):
            role = {"Human": "user", "Ai": "assistant", "System": "system"}[header[1]]
            continue
        line = _ROLE.sub("", raw).strip()
        if line and role != "system":  # a system message tells the date, and nobody says it
            lines[line if _SPEAKER.match(line) or not role else f"{role}: {line}"] = None
    return list(lines)


def names(line: str) -> list[str]:
    """The speaker of a line, and its longest word: what an entity graph can be made of."""
    speaker = _SPEAKER.match(line)
    words = _WORD.findall(line[speaker.end() :] if speaker else line)
    longest = max(words, key=len, default="")[:40]
    return [name for name in dict.fromkeys([speaker[1] if speaker else "", longest]) if name]


def tool_calls(tools: list[dict[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """One call for each fact, of the first tool that does not change what is stored already."""
    functions = [tool["function"] for tool in tools]
    new = [function for function in functions if "json_doc_id" not in function["parameters"]["properties"]]
    function = (new or functions)[0]
    calls = []
    for number, fact in enumerate(facts(prompt)):
        value = SchemaFiller(function["parameters"], [fact], [], []).value()
        called = {"name": function["name"], "arguments": json.dumps(value, ensure_ascii=False)}
        calls.append({"id": f"call_{number}", "type": "function", "function": called})
    return calls


def fill(schema: Schema, prompt: str) -> Any:
    """A value that fits a JSON schema, with facts and names of the prompt as its texts."""
    if "\nMemories:\n" in prompt:
        return {"answer": answer(prompt), "citations": [1]}
    lines = facts(prompt)
    known = _entities("ENTITIES", prompt) or [{"name": name} for line in lines for name in names(line)]
    entities = list(dict.fromkeys(entity["name"] for entity in known))
    existing = [entity["name"] for entity in _entities("EXISTING ENTITIES", prompt)]
    return SchemaFiller(schema, lines, entities, existing).value()


def _entities(tag: str, prompt: str) -> list[dict[str, Any]]:
    """The JSON list between two tags of a prompt."""
    found = re.search(rf"<{tag}>\n(\[.*?\])\n</{tag}>", prompt, re.DOTALL)
    listed: list[dict[str, Any]] = json.loads(found[1]) if found else []
    return listed


class SchemaFiller:
    """Fills a JSON schema. A list has an entry for each entity if its entries have a name, else for each fact."""

    def __init__(self, schema: Schema, lines: list[str], entities: list[str], existing: list[str]) -> None:
        self._root = schema
        self._lines = lines
        self._entities = entities
        self._existing = existing

    def value(self) -> Any:
        """The value of the whole schema."""
        return self._value(self._root, "", self._lines[0] if self._lines else "", 0)

    def _value(self, schema: Schema, key: str, line: str, at: int) -> Any:
        """The value of one part. `line` is the fact or the name of the entry that it belongs to, `at` its place."""
        schema = self._resolved(schema)
        if "enum" in schema:
            return schema["enum"][0]
        if choices := schema.get("anyOf"):
            nullable = any(choice.get("type") == "null" for choice in choices)
            return None if nullable else self._value(choices[0], key, line, at)
        match schema.get("type"):
            case "object":
                parts = schema.get("properties", {})
                return {name: self._value(part, name, line, at) for name, part in parts.items()}
            case "array":
                return self._entries(key, self._resolved(schema.get("items", {})))
            case "integer" | "number":
                return self._number(key, line, at)
            case "boolean":
                return False
            case _:
                return _text_of(key, line)

    def _resolved(self, schema: Schema) -> Schema:
        resolved: Schema = self._root["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        return resolved

    def _entries(self, key: str, items: Schema) -> list[Any]:
        if items.get("type") not in ("object", "string"):
            return [0] if key.endswith("indices") else []  # no fact is a duplicate, and none contradicts another
        parts = items.get("properties", {})
        lines = self._entities if "name" in parts else self._lines
        if "source_entity_name" in parts:
            lines = [line for line in lines if len(names(line)) == 2]
        return [self._value(items, "", line, at) for at, line in enumerate(lines)]

    def _number(self, key: str, line: str, at: int) -> int:
        if key.startswith("duplicate"):
            return self._existing.index(line) if line in self._existing else -1
        return at if key == "id" else 0


def _text_of(key: str, line: str) -> str:
    if key == "relation_type":
        return "SPEAKS_OF"
    if key.endswith("_entity_name"):
        return names(line)[0 if key.startswith("source") else -1]
    return line


def json_object(prompt: str) -> dict[str, Any]:
    """What mem0 asks for without a schema, or an answer."""
    if "## New Messages" in prompt:
        return {"memory": [{"id": str(at), "text": fact} for at, fact in enumerate(facts(prompt))]}
    return {"answer": answer(prompt), "citations": [1]}


def text(prompt: str) -> str:
    """An answer, or what the prompts of assay's own memories ask for."""
    if prompt.endswith("Write the calls, or none."):  # MGMemory saves a fact, or looks for the question itself
        question = re.search(r"<question>\n(.*)\n</question>", prompt, re.DOTALL)
        return f"recall: {question[1]}" if question else f"save: {(facts(prompt) or ['nothing'])[-1]}"
    if "whole number" in prompt:
        return str(1 + zlib.crc32(prompt.encode()) % 10)
    if "yes" in prompt and "no" in prompt and "Reply with yes" in prompt:
        return "yes" if zlib.crc32(prompt.encode()) % 3 == 0 else "no"
    if "begin with save:" in prompt or "\nsave: " in prompt:
        return "\n".join(f"save: {fact}" for fact in facts(prompt)[:2]) or "none"
    if "\nrecall: " in prompt:
        return "recall: " + prompt.rpartition("<question>\n")[2].partition("\n")[0]
    if '"citations"' in prompt:
        return json.dumps(json_object(prompt), ensure_ascii=False)
    if "Question: " in prompt:
        return answer(prompt)
    return "\n".join(fact for fact in facts(prompt) if not fact.startswith(("<", "=")))[-400:] or "nothing"


def answer(prompt: str) -> str:
    """The memory that shares most words with the question; the first of equals."""
    memories, _, question = prompt.rpartition("Question: ")
    lines = [line.strip() for line in memories.split("\n") if line.startswith(("- ", "["))]
    wanted = set(re.findall(r"\w+", question.lower()))
    found = max(lines, key=lambda line: len(wanted & set(re.findall(r"\w+", line.lower()))), default="")
    return re.sub(r"^(?:-|\[\d+\]) *", "", found)[:150] or "Not mentioned."


def main() -> None:
    """Serve until standard input ends."""
    with MemoryModel() as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.write(f"{json.dumps(server.kinds)}\n")


if __name__ == "__main__":
    main()
