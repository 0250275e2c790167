"""Review: a person looks at a plan before it is carried out, and approves, edits, comments or rejects it.

It is the same question as any other: asked on the terminal where there is one, answered with `handloom runs answer` elsewhere. A plan that was changed is
shown again.
"""

import re
from itertools import count

from handloom.errors import DeniedError, FlowError
from handloom.flow import check, files, inputs
from handloom.flow.approval import YES
from handloom.flow.planner import ModelPlanner
from handloom.plans import Plan
from handloom.runs import Run

OPTIONS = ("approve", "edit", "reject")
EDIT = "edit"
_NO = {"reject", "rejected", "no", "n", "cancel", "stop", "拒绝", "否", "不", "不行", "取消"}
_FLOW = re.compile(r"^\s*[\"']?steps[\"']?\s*:", re.MULTILINE)
_HINT = "(approve; reject; or say in words what to change; or answer with a whole flow file)"


async def reviewed(plan: Plan, planner: ModelPlanner, run: Run, around: check.Surroundings) -> Plan:
    """The plan that a person has approved. Raises: DeniedError when it is rejected, SuspendedError when nobody answers now."""
    said = ""
    for number in count(1):
        answer = (await run.ask(question(plan, said), OPTIONS, key=f"review-{number}")).strip()
        word = answer.rstrip(".!。\uff01").lower()
        if word in YES:
            return plan
        if word in _NO:
            raise DeniedError("the plan was rejected")
        if word == EDIT:
            said = f"Answer with the changed flow file: cat plan.yaml | handloom runs answer {run.id} -"
            continue
        try:
            plan, said = (
                (_edited(answer, around), "The plan as you changed it.")
                if _FLOW.search(answer)
                else (await planner.revise(plan, answer, run.child(f"draft-{number + 1}")), f"Changed: {answer[:200]}")
            )
        except FlowError as error:
            said = f"This cannot be done, and the plan is as it was:\n{error}"
    raise AssertionError  # count has no end


def question(plan: Plan, said: str = "") -> str:
    """What a person is shown: what is asked, and after an empty line the flow file."""
    size = f"{len(plan.steps)} {'step' if len(plan.steps) == 1 else 'steps'}"
    note = "".join(f"{line}\n" for line in said.splitlines() if line.strip())
    return f"{note}Carry out this plan of {size}? {_HINT}\n\n{files.text_of(plan)}"


def flow_file(question: str) -> str:
    """The flow file in such a question."""
    return question.partition("\n\n")[2]


def _edited(text: str, around: check.Surroundings) -> Plan:
    plan, document = files.parse(text)
    check.check(plan, around, document)
    inputs.complete(plan.inputs, {})
    return plan
