"""The example lines of the document of HOP batch files, their `...` filled in where they are no JSON."""

from __future__ import annotations

GENERAL = '{"id": 1, "tag": "fabrication", "description": "d", "question": "q", "expected_answer": true}'
VERIFY = [
    '{"id": 1, "tag": "fabrication", "description": "完全虚构的数据", "context_window": "A公司2023年营收120亿元", "model_output": "A公司2023年营收200亿元", "expected_hallucination_detected": true}',
    '{"id": 2, "tag": "clean", "description": "忠实原文的输出", "context_window": "B公司成立于2010年", "model_output": "B公司成立于2010年", "expected_hallucination_detected": false}',
]
META = '{"_type": "meta", "profile": "kimi-full", "run_llm": "Kimi-K2-Instruct-0905", "verify_llm": "Kimi-K2-Instruct-0905", "run_params": {"temperature": 0.1, "max_tokens": 4000}, "timestamp": "2026-02-19T10:30:00"}'
FLAT_SHORT = '{"id":1, "question":"...", "hop_result":"{}"}'
VIEW_SHORT = '{"input":{"question":"..."}, "result":"{}"}'
RESULT = '{"id": 1, "tag": "fabrication", "context_window": "...", "model_output": "...", "hop_result": "{}", "hop_stats": {"retry_count": 0, "execution_path": [], "status": "OK"}, "profile": "kimi-full"}'
VIEW = [
    '{"input": {"question": "HOP 是什么？"}, "result": "{\\"answer\\": \\"...\\", \\"confidence\\": \\"High\\"}"}',
    '{"input": {"question": "fail case"}, "error": "timeout"}',
]
