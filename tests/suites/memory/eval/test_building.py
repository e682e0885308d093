"""Building is paid once: an output folder holds one run, so the runs to take replies from stand beside it."""

from __future__ import annotations

from pathlib import Path

from servers.fake_openai import FakeOpenAI
from support.memory_samples import Samples, entry_of


def test_another_answer_model_in_a_folder_beside_builds_nothing_again(tmp_path: Path) -> None:
    """RFMemory asks once for each session. The replies of the second run's building were paid by the first."""
    with FakeOpenAI(latency=0.0) as server:
        samples = Samples(tmp_path)

        def run(folder: str, answer_model: str, **options: object) -> list[int]:
            server.reset()
            made = samples.run(
                baseline=["RFMemory"],
                model="",
                build_model="openai/b",
                answer_model=answer_model,
                base_url=server.url,
                output_dir=f"{tmp_path}/results/{folder}",
                judge="offline",
                **options,
            )
            stages = entry_of(made, "RFMemory").tables[0]
            calls = {row[0]: dict(zip(stages.columns, row, strict=True)) for row in stages.rows}
            build = calls["build"]
            return [len(server.stats().requests), build["calls"], build.get("reused", 0)]  # type: ignore[list-item]

        sent, built, reused = run("one", "openai/one")
        assert (built > 0, reused) == (True, 0)
        answers = sent - built
        assert run("two", "openai/two") == [answers, built, built]
        # The same answer model once more is a repeat on purpose, as its own folder says.
        assert run("again", "openai/one", fresh=True) == [sent, built, 0]
