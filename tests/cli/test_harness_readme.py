"""The commands of lm_eval 0.4.13's README and help, typed with `assay task` for `lm_eval`.

Each is a run of assay, or one sentence that says why not. docs/coming-from/lm-eval-commands.md lists them all.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from assay.cli.suite_command import suite_command
from assay.core import registry
from assay.core.errors import UsageError
from assay.core.spec import RunSpec
from assay.suites.task.harness_models import NAMES, REFUSED, named_model
from assay.suites.task.options import TaskOptions
from assay.suites.task.suite import TaskSuite

from conftest import write_docs
from support.commands import run_here

PAGE = Path(__file__).parents[2] / "docs" / "coming-from" / "lm-eval-commands.md"
TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}
test_split: test
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
"""
LAUNCHED = "this is one of 2 processes of torchrun or accelerate; start assay once. "
NO_NAME = "--model hf needs the model's name: --model_args pretrained=NAME"


def not_supported(model: str, why: str) -> str:
    """The sentence about a model that assay does not run."""
    return f"--model {model}: {why}"


NEMO, MEGATRON = (
    not_supported(model, f"{title} checkpoints are not supported; ")
    for model, title in (("nemo_lm", "NeMo"), ("megatron_lm", "Megatron"))
)
# The command, and the model of assay, or the beginning of the sentence.
README = {
    "lm_eval --model hf --model_args pretrained=EleutherAI/gpt-j-6B --tasks hellaswag --device cuda:0 "
    "--batch_size 8": "hf/EleutherAI/gpt-j-6B",
    'lm_eval --model hf --model_args pretrained=EleutherAI/pythia-160m,revision=step100000,dtype="float" '
    "--tasks lambada_openai,hellaswag --device cuda:0 --batch_size 8": "hf/EleutherAI/pythia-160m",
    'lm_eval --model hf --model_args pretrained=EleutherAI/pythia-160m,revision=step100000,dtype="float" '
    "--tasks lambada_openai,hellaswag --device cuda:0 --batch_size auto:4": "hf/EleutherAI/pythia-160m",
    "lm_eval --model hf --model_args pretrained=/path/to/gguf_folder,gguf_file=model-name.gguf,"
    "tokenizer=/path/to/tokenizer --tasks hellaswag --device cuda:0 --batch_size 8": "hf//path/to/gguf_folder",
    "accelerate launch -m lm_eval --model hf --tasks lambada_openai,arc_easy --batch_size 16": LAUNCHED,
    "lm_eval --model hf --tasks lambada_openai,arc_easy --model_args parallelize=True --batch_size 16": NO_NAME,
    "accelerate launch --multi_gpu --num_processes {nb_of_copies_of_your_model} -m lm_eval --model hf "
    "--tasks lambada_openai,arc_easy --model_args parallelize=True --batch_size 16": LAUNCHED,
    "torchrun --nproc-per-node=4 -m lm_eval --model hf --model_args "
    "pretrained=google/gemma-4-31B-it,tp_plan=auto --tasks lambada_openai,arc_easy --batch_size 16": LAUNCHED,
    "lm_eval --model steered --model_args pretrained=EleutherAI/pythia-160m,steer_path=steer_config.pt "
    "--tasks lambada_openai,hellaswag --device cuda:0 --batch_size 8": not_supported(
        "steered", "steering vectors are not supported; "
    ),
    "lm_eval --model nemo_lm --model_args path=<path_to_nemo_model> --tasks hellaswag --batch_size 32": NEMO,
    "torchrun --nproc-per-node=8 --no-python lm_eval --model nemo_lm --model_args "
    "path=<path_to_nemo_model>,devices=8 --tasks hellaswag --batch_size 32": LAUNCHED,
    "torchrun --nproc-per-node=4 --no-python lm_eval --model nemo_lm --model_args path=<path_to_nemo_model>,"
    "devices=4,tensor_model_parallel_size=2,pipeline_model_parallel_size=2 --tasks hellaswag "
    "--batch_size 32": LAUNCHED,
    "lm_eval --model megatron_lm --model_args load=/path/to/checkpoint,tokenizer_type=HuggingFaceTokenizer,"
    "tokenizer_model=/path/to/tokenizer --tasks hellaswag --batch_size 1": MEGATRON,
    "torchrun --nproc-per-node=4 -m lm_eval --model megatron_lm --model_args load=/path/to/checkpoint,"
    "tokenizer_model=/path/to/tokenizer,devices=4 --tasks hellaswag": LAUNCHED,
    "torchrun --nproc-per-node=2 -m lm_eval --model megatron_lm --model_args load=/path/to/checkpoint,"
    "tokenizer_model=/path/to/tokenizer,devices=2,tensor_model_parallel_size=2 --tasks hellaswag": LAUNCHED,
    "torchrun --nproc-per-node=4 -m lm_eval --model megatron_lm --model_args load=/path/to/moe_checkpoint,"
    "tokenizer_model=/path/to/tokenizer,devices=4,expert_model_parallel_size=4 --tasks hellaswag": LAUNCHED,
    "lm_eval --model megatron_lm --model_args load=/path/to/checkpoint,tokenizer_model=/path/to/tokenizer,"
    'extra_args="--no-rope-fusion --trust-remote-code" --tasks hellaswag': MEGATRON,
    "lm_eval --model openvino --tasks wikitext --model_args pretrained=<path_to_ov_model>,pipeline_parallel=True "
    "--device HETERO:GPU.1,GPU.0": not_supported("openvino", "OpenVINO models are not supported; "),
    "lm_eval --model vllm --model_args pretrained={model_name},tensor_parallel_size={GPUs_per_model},dtype=auto,"
    "gpu_memory_utilization=0.8,data_parallel_size={model_replicas} --tasks lambada_openai "
    "--batch_size auto": "vllm/{model_name}",
    "lm_eval --model sglang --model_args pretrained={model_name},dp_size={data_parallel_size},"
    "tp_size={tensor_parallel_size},dtype=auto --tasks gsm8k_cot --batch_size auto": "sglang/{model_name}",
    "lm_eval --model onnxruntime-genai --model_args pretrained=/path/to/model_builder_output,"
    "execution_provider=cuda --tasks hellaswag --batch_size 1": not_supported(
        "onnxruntime-genai", "ONNX models are not supported; "
    ),
    "lm_eval --model onnxruntime --model_args pretrained=/path/to/model_builder_output,execution_provider=rocm "
    "--tasks hellaswag,arc_easy,wikitext --batch_size 1": not_supported(
        "onnxruntime", "ONNX models are not supported; "
    ),
    "lm_eval --model winml --model_args pretrained=/path/to/onnx/model --tasks mmlu --batch_size 1": not_supported(
        "winml", "Windows ML is not supported; "
    ),
    "lm_eval --model openai-completions --model_args model=davinci-002 "
    "--tasks lambada_openai,hellaswag": "openai-completions/davinci-002",
    "lm_eval --model local-completions --tasks gsm8k --model_args model=facebook/opt-125m,"
    "base_url=http://{yourip}:8000/v1/completions,num_concurrent=1,max_retries=3,tokenized_requests=False,"
    "batch_size=16": "openai-completions/facebook/opt-125m",
    "lm_eval --model openai --model_args engine=davinci-002 --tasks lambada_openai,hellaswag "
    "--check_integrity": not_supported("openai", "write openai-chat-completions or openai-completions"),
    "lm_eval --model hf --model_args pretrained=EleutherAI/gpt-j-6b,parallelize=True,load_in_4bit=True,"
    "peft=nomic-ai/gpt4all-j-lora --tasks openbookqa,arc_easy,winogrande,hellaswag,arc_challenge,piqa,boolq "
    "--device cuda:0": "hf/EleutherAI/gpt-j-6b",
    "lm_eval --model hf --model_args pretrained=Ejafa/llama_7B,delta=lmsys/vicuna-7b-delta-v1.1 "
    "--tasks hellaswag": "hf/Ejafa/llama_7B",
    "lm_eval --model hf --model_args pretrained=model-name-or-path,gptqmodel=True "
    "--tasks hellaswag": "hf/model-name-or-path",
    "lm_eval --model hf --model_args pretrained=model-name-or-path,autogptq=model.safetensors,"
    "gptq_use_triton=True --tasks hellaswag": "hf/model-name-or-path",
    "lm_eval --model hf --model_args pretrained=model-name-or-path,autogptq=model.safetensors,"
    "gptq_use_triton=True --tasks hellaswag --log_samples --output_path results --hf_hub_log_args "
    "hub_results_org=EleutherAI,hub_repo_name=lm-eval-results,push_results_to_hub=True,"
    "push_samples_to_hub=True,public_repo=False": "hf/model-name-or-path",
    "lm_eval --model hf --model_args pretrained=EleutherAI/gpt-j-6B --tasks hellaswag --device cuda:0 "
    "--batch_size 8 --log_samples --output_path output/gpt-j-6B": "hf/EleutherAI/gpt-j-6B",
    "lm_eval --model hf --model_args pretrained=microsoft/phi-2,trust_remote_code=True --tasks "
    "hellaswag,mmlu_abstract_algebra --device cuda:0 --batch_size 8 --output_path output/phi-2 --limit 10 "
    "--wandb_args project=lm-eval-harness-integration --log_samples": "hf/microsoft/phi-2",
}
HELP = {
    "lm_eval --model hf --model_args pretrained=gpt2 dtype=float32 --tasks hellaswag": "hf/gpt2",
    "lm_eval --model vllm --model_args pretrained=EleutherAI/gpt-j-6B --tasks arc_easy arc_challenge "
    "--num_fewshot 5": "vllm/EleutherAI/gpt-j-6B",
    "lm_eval --model hf --model_args pretrained=gpt2 --tasks lambada --gen_kwargs temperature=0.8 top_p=0.95 "
    "'stop=[\"\\n\\n\"]'": "hf/gpt2",
    "lm_eval --config my_config.yaml --tasks mmlu": "hf/gpt2",
    "lm_eval --model_args pretrained=gpt2 --tasks hellaswag --use_cache cache --cache_requests true "
    "--trust_remote_code": "hf/gpt2",
}
COMMANDS = README | HELP
ALL = 33


def test_no_command_is_left_out() -> None:
    """The README has 33 commands that begin with lm_eval or a launcher of it."""
    assert len(README) == ALL


def words_of(command: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words after `lm_eval`. Under a launcher, the process has the launcher's variables."""
    words = shlex.split(command)
    start = words.index("lm_eval")
    if start:
        monkeypatch.setenv("LOCAL_RANK", "0")
        monkeypatch.setenv("WORLD_SIZE", "2")
    return words[start + 1 :]


def spec_of(words: list[str]) -> RunSpec:
    """The options of a typed command, as the suite reads them."""
    command = suite_command("task")
    with command.make_context("task", words) as context:
        values = context.params
    config = values.pop("config")
    names = {flag.partition(" ")[0].lstrip("-").replace("-", "_") for flag in TaskOptions.ignored}
    for name in names | {"dry_run"}:
        values.pop(name)
    return TaskSuite.resolve(command.spec(values, config))


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small tasks of the names that the commands have."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    names = {name for command in COMMANDS for name in re.findall(r"--tasks ([\w, ]+?)(?: --|$)", command)}
    for name in {name for text in names for name in re.split("[ ,]", text)}:
        (tmp_path / "tasks" / f"{name}.yaml").write_text(TASK.format(name=name))
    write_docs(tmp_path / "docs.jsonl", [{"q": str(number), "a": "1"} for number in range(8)])
    (tmp_path / "my_config.yaml").write_text(
        "model: hf\nmodel_args: {pretrained: gpt2}\nbatch_size: 8\ndevice: cuda:0\n"
    )
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_a_run_or_one_sentence(command: str, tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is downloaded: --dry-run plans the requests."""
    words, expected = words_of(command, monkeypatch), COMMANDS[command]
    done = run_here(["task", *words, "--include_path", "tasks", "--dry-run"], tasks)
    said = [line for line in done.stderr.splitlines() if " is ignored: " not in line]
    provider = expected.partition("/")[0]
    if " " in expected:
        assert done.returncode == 2
        assert len(said) == 1, said
        assert said[0].startswith(expected)
        return
    assert spec_of(words).model == expected
    if done.returncode:
        # A provider that is not installed, or an argument that it does not take.
        assert done.returncode == 2
        assert len(said) == 1, said
        assert f"argument of {provider} named" in said[0] or provider not in registry.names("model"), said
    else:
        assert expected in done.stdout


def test_arguments_and_flags_of_a_command_reach_the_provider(tasks: Path) -> None:
    """As text or number, wherever they are written."""
    words = shlex.split(
        'hf --model_args pretrained=gpt2,revision=step100000,dtype="float" --device cuda:0 --batch_size auto:4 '
        "--trust_remote_code --tasks hellaswag"
    )
    spec = spec_of(["--model", *words])
    assert spec.model_args == {"pretrained": "gpt2", "revision": "step100000", "dtype": "float"}
    flags = {"device": "cuda:0", "batch_size": "auto:4", "trust_remote_code": True}
    assert spec.options.model_arguments() == flags
    config = spec_of(["--config", "my_config.yaml", "--tasks", "mmlu"])
    assert config.options.model_arguments() == {"device": "cuda:0", "batch_size": 8}


# Names of models


@pytest.mark.parametrize(
    ("model", "args", "expected", "base_url"),
    [
        ("huggingface", {"pretrained": "gpt2"}, "hf/gpt2", None),
        ("hf-auto", {"pretrained": "gpt2"}, "hf/gpt2", None),
        ("anthropic-chat", {"model": "claude-1"}, "anthropic/claude-1", None),
        (
            "anthropic-chat-completions",
            {"model": "claude-1", "base_url": "http://h/v1/messages"},
            "anthropic/claude-1",
            "http://h",
        ),
        (
            "azure-openai-chat-completions",
            {"model": "d", "base_url": "https://r.openai.azure.com"},
            "azure/d",
            "https://r.openai.azure.com",
        ),
        ("gguf", {"base_url": "http://h:8000"}, "openai-completions/gguf", "http://h:8000/v1"),
        ("ggml", {"base_url": "http://h:8000/v1/"}, "openai-completions/ggml", "http://h:8000/v1"),
        ("gguf", {"pretrained": "a/b.gguf"}, "local/a/b.gguf", None),
        ("litellm", {"model": "anthropic/claude-1"}, "anthropic/claude-1", None),
        ("litellm-chat", {"model": "gpt-1"}, "openai/gpt-1", None),
        ("local-chat-completions", {"pretrained": "org/m"}, "openai/org/m", None),
        ("openai/m", {}, "openai/m", None),
    ],
)
def test_a_name_of_the_harness_is_a_model_of_assay(
    model: str, args: dict[str, str], expected: str, base_url: str | None
) -> None:
    found, arguments = named_model(model, args)
    assert found == expected
    assert arguments.get("base_url") == base_url


@pytest.mark.parametrize("model", sorted(NAMES))
def test_every_name_of_the_harness_is_a_model_or_a_sentence_and_on_the_page(model: str) -> None:
    """The page has each name as code."""
    assert f"`{model}`" in PAGE.read_text()
    args = {"pretrained": "m", "model": "m", "base_url": "http://h"}
    if model not in REFUSED:
        assert named_model(model, args)[0].endswith("/m")
        return
    with pytest.raises(UsageError, match=f"^--model {model}: "):
        named_model(model, args)


def test_the_page_has_a_row_for_every_command() -> None:
    """With the model of assay, or the beginning of the sentence."""
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    for command, expected in COMMANDS.items():
        assert (expected if " " in expected else f"`{expected}`") in rows[command], command
