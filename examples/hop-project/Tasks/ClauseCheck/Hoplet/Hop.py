"""条款核对：由模型判断一句陈述是否与合同条款一致."""

from typing import Any


async def hop_clause_check(session: Any, input_data: dict[str, str]) -> tuple[str, Any]:
    """返回结论；模型不确定时状态为 UNCERTAIN."""
    status, verdict = await session.hop_judge(
        f"陈述与条款一致：{input_data['claim']}", input_data["clause"], verifier=None
    )
    if status != "OK":
        return status, verdict
    if verdict == "Uncertain":
        return "UNCERTAIN", {"verdict": verdict}
    return "OK", {"consistent": verdict == "True", "verdict": verdict}
