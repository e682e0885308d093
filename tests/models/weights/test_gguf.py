"""Any GGUF file: chat template, context, parts, and what is said about files that cannot be used."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError, UsageError
from assay.core.roles import Connection
from assay.core.types import Request, Response
from assay.models import local
from assay.models.weights.gguf import part_names, read_header
from assay.models.weights.pulled import list_local

from support.gguf import rewrite_gguf, split_gguf, tiny_field, tiny_header

pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
PARAMS = {"max_tokens": 6, "temperature": 0.0}
TEXT = Request(model="local", prompt="The capital of France is", params=PARAMS)
CHAT = Request(model="local", messages=[{"role": "user", "content": "Say hi."}], params=PARAMS)


def ask(path: Path, request: Request, **args: Any) -> Response:
    model = local.connect(Connection(name=str(path), args=args))
    return asyncio.run(model.send(request, 1))


@pytest.fixture(scope="module")
def base_model(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2 without its chat template, and with a shorter context."""
    fields: dict[str, str | int | None] = {"tokenizer.chat_template": None, "llama.context_length": 256}
    return rewrite_gguf(weights, tmp_path_factory.mktemp("base") / "base.gguf", fields)


def test_the_header_has_template_and_context(weights: Path, base_model: Path) -> None:
    header = read_header(weights)
    assert header.context_length == 8192
    assert "<|im_start|>" in header.chat_template
    assert read_header(base_model) == header._replace(chat_template="", context_length=256)


def test_a_model_without_chat_template_continues_texts_and_refuses_messages(base_model: Path) -> None:
    """llama.cpp would use ChatML without a word, and the scores would blame the model."""
    assert ask(base_model, TEXT).text.startswith(" Paris")
    with pytest.raises(ModelError, match="has no chat template: it is a base model") as caught:
        ask(base_model, CHAT)
    assert caught.value.failure.kind == "unsupported"


def test_a_chat_template_may_be_a_name_or_a_file(base_model: Path, tmp_path: Path) -> None:
    template = tmp_path / "own.jinja"
    template.write_text("{% for message in messages %}{{ message.content }}{% endfor %} The capital of France is")
    named = ask(base_model, CHAT, chat_template="zephyr")
    own = ask(base_model, CHAT, chat_template=str(template))
    assert own.text.startswith(" Paris")
    assert named.usage is not None
    assert own.usage is not None
    assert named.usage.input != own.usage.input


def test_the_context_is_the_one_the_model_was_trained_for(base_model: Path) -> None:
    """256 tokens are fewer than the default of 8192. A longer prompt overflows, by the model's own limit."""
    with pytest.raises(ModelError, match=r"256 tokens") as caught:
        ask(base_model, Request(model="local", prompt="word " * 300, params=PARAMS))
    assert caught.value.failure.kind == "context_overflow"


def test_a_split_model_answers_like_the_whole(weights: Path, tmp_path: Path) -> None:
    first, second = split_gguf(weights, tmp_path, "split")
    assert ask(first, TEXT).text == ask(weights, TEXT).text
    with pytest.raises(UsageError, match=r"part 2 of 2. Name the first part: split-00001-of-00002.gguf"):
        local.connect(Connection(name=str(second)))
    before = local.connect(Connection(name=str(first))).endpoint
    with second.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    assert local.connect(Connection(name=str(first))).endpoint != before  # the second part counts, too
    second.unlink()
    with pytest.raises(UsageError, match="has 2 parts, and .*split-00002-of-00002.gguf is missing"):
        local.connect(Connection(name=str(first)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello", "is not a GGUF file"),
        (b"GGUF", "the header of .* cannot be read: the file is damaged or incomplete"),
        (tiny_header(general__name="x" * 100)[:-50], "damaged or incomplete"),
        (b"GGUF\x01" + bytes(30), "this is version 1 of the GGUF format"),
        (b"GGUF\x03\0\0\0" + bytes(8) + b"\xff" * 50, "damaged or incomplete"),
    ],
    ids=["text", "only the first letters", "cut", "old version", "absurd lengths"],
)
def test_unusable_headers_are_refused_before_anything_is_asked(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        local.connect(Connection(name=str(path)))


LLAMA = tiny_field("general.architecture", 8, struct.pack("<Q", 5) + b"llama")
NESTED = struct.pack("<IQ", 9, 1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([tiny_field("x", 9, NESTED * 5000)], "arrays are nested more than 8 deep"),
        ([tiny_field("x", 9, struct.pack("<IQ", 4, 2**60))], "a value ends after the end of the file"),
        ([tiny_field("x", 9, struct.pack("<IQ", 4, 2**64 - 1))], "a value ends after the end of the file"),
        ([tiny_field("x", 9, struct.pack("<IQ", 8, 2**60) + bytes(800))], "more than 10,000,000 fields"),
        ([tiny_field("x", 9, struct.pack("<IQ", 9, 2**60) + bytes(800))], "more than 10,000,000 fields"),
        ([tiny_field("x", 8, struct.pack("<Q", 2**64 - 1))], "a value ends after the end of the file"),
        ([tiny_field("x", 9, struct.pack("<IQ", 8, 3) + bytes(20))], "a list of texts ends after the end"),
        ([tiny_field("x", 77, bytes(8))], "there is no type 77"),
        ([tiny_field("x", 8, struct.pack("<Q", 1) + b"\xff")], "a text is not UTF-8"),
        ([LLAMA, tiny_field("llama.context_length", 6, struct.pack("<f", math.inf))], "'inf', not a whole"),
        (
            [LLAMA, tiny_field("llama.context_length", 8, struct.pack("<Q", 4) + b"many")],
            "'many', not a whole",
        ),
        ([LLAMA, tiny_field("llama.context_length", 5, struct.pack("<i", -1))], "'-1', not a whole number"),
    ],
)
def test_a_damaged_header_is_a_sentence_and_the_list_of_models_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: list[bytes], reason: str
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "broken.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields))
    with pytest.raises(UsageError, match=f"damaged or incomplete .*{reason}"):
        read_header(path)
    files = [{"name": path.name, "size": 1, "sha256": "0"}]
    description = {"name": "broken", "source": "x", "files": files}
    (tmp_path / "models" / "broken.json").write_text(json.dumps(description))
    assert [model.context_length for model in list_local() if model.name == "broken"] == [0]


def test_a_number_of_fields_beyond_all_reason_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60) + bytes(5000))
    with pytest.raises(UsageError, match="more than 10,000,000 fields and texts"):
        read_header(path)


def test_a_text_beyond_all_reason_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + tiny_field("x", 8, struct.pack("<Q", 2**36)))
    with path.open("r+b") as file:
        file.truncate(2**36 + 1000)  # the file has no blocks for the empty part
    with pytest.raises(UsageError, match="its texts have more than 64,000,000 bytes"):
        read_header(path)


def test_a_file_that_is_part_1_of_0_is_no_split_model() -> None:
    assert part_names("x-00001-of-00000.gguf") == ["x-00001-of-00000.gguf"]


def test_llama_cpp_says_why_it_cannot_load(tmp_path: Path) -> None:
    """An architecture that is newer than llama.cpp. Its log has the reason, and the failure quotes it."""
    path = tmp_path / "new.gguf"
    path.write_bytes(tiny_header(general__architecture="gpt9"))
    with pytest.raises(ModelError, match="unknown model architecture: 'gpt9'") as caught:
        ask(path, TEXT)
    assert caught.value.failure.kind == "not_found"


def test_a_broken_template_is_the_reason_that_is_named(weights: Path, tmp_path: Path) -> None:
    template = tmp_path / "broken.jinja"
    template.write_text("{{ broken")
    with pytest.raises(ModelError, match="Parser Error: Expected"):
        ask(weights, CHAT, chat_template=str(template))
