"""The gate before each call: policy, hooks and, where they say so, a person. What it decides is recorded."""

import codecs
import difflib
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import msgspec

from handloom import hosts
from handloom.agents.reading import beginning
from handloom.errors import DeniedError
from handloom.events import ToolDecided
from handloom.messages import Json, ToolCall, ToolResult
from handloom.policy import Asked, Policy, Rule, Verdict, commands, decide, run_hooks
from handloom.runs import Run
from handloom.tools import Tool

APPROVAL = "approval"  # the key of the question, so that an answer is never taken for a tool's own
ONCE, RUN, ALWAYS, NO, STOP = "once", "run", "always", "no", "stop"
_YES = {ONCE, "yes", "y", "ok", "allow", "是", "好"}
_AROUND = re.compile(r"^[^\w?\uff1f]+|[^\w?\uff1f]+$")
MOST_SHOWN = 20_000  # characters of arguments in a question


async def refusal(run: Run, call: ToolCall, tool: Tool) -> ToolResult | None:
    """None when the call may run; else the result that the model reads. `run` is the span of the call.

    Raises: SuspendedError when a person must answer and nobody is there, DeniedError when the person stops the run.
    """
    policy = run.safety.policy
    if run.safety.redactor.finds(call.arguments_json) and tool.effects - {"read"}:
        return await _denied(run, call, Verdict("deny", "its arguments hold a secret"))
    if policy is None:
        return None
    asked = _asked(run, call, tool)
    verdict = decide(policy, asked)
    if verdict.do == "ask":
        verdict = await _approved(run, call, asked, verdict, policy)
    if verdict.do == "deny":
        return await _denied(run, call, verdict)
    body = {"event": "before_tool", "run": run.id, "call": call.id, "tool": call.name, "arguments": call.arguments}
    blocked = await run_hooks(policy.hooks, "before_tool", body, tool=call.name, folder=str(run.workspace))
    if blocked:
        await run.emit(ToolDecided(call=call.id, tool=call.name, do="deny", by="hook", reason=blocked.reason))
        return ToolResult(text=f"denied by a hook: {blocked.reason}", ok=False)
    return None


async def checked(run: Run, call: ToolCall, tool: Tool, result: ToolResult) -> ToolResult:
    """The result after the hooks that look at results; marked where strangers wrote it."""
    policy = run.safety.policy
    if tool.untrusted or (policy is not None and policy.is_source(call.name)):
        result = msgspec.structs.replace(result, untrusted=True)
    if policy is None or not policy.hooks:
        return result
    body: Json = {
        "event": "after_tool",
        "run": run.id,
        "call": call.id,
        "tool": call.name,
        "arguments": call.arguments,
        "ok": result.ok,
        "result": result.text,
    }
    blocked = await run_hooks(policy.hooks, "after_tool", body, tool=call.name, folder=str(run.workspace))
    return ToolResult(text=f"the result was held back by a hook: {blocked.reason}", ok=False) if blocked else result


def _asked(run: Run, call: ToolCall, tool: Tool) -> Asked:
    said = [message.text for message in run.memory.messages if message.origin == "task"]
    answers = [question.answer for question in run.state.questions.values() if not question.id.endswith(f"?{APPROVAL}")]
    return Asked(
        tool=call.name,
        arguments=call.arguments,
        effects=frozenset(tool.effects),
        destinations=tool.destinations,
        tainted=tuple(run.state.tainted),
        words="\n".join([run.state.task, *said, *(answer for answer in answers if answer)]),
        seen=lambda place: any(place in message.text for message in run.memory.messages if message.role == "tool"),
        granted=call.name in run.state.granted,
        granted_tainted=call.name in run.state.granted_tainted,
    )


async def _approved(run: Run, call: ToolCall, asked: Asked, verdict: Verdict, policy: Policy) -> Verdict:
    """A person's word on the call."""
    if policy.alone == "deny" and not run.is_attended:
        return Verdict("deny", f"{verdict.reason}, and nobody is there to allow it", verdict.rule)
    rule = remembered(call, tainted=bool(asked.tainted))
    options = (ONCE, RUN, *([ALWAYS] if rule and policy.remember else []), NO, STOP)
    answer = await run.ask(question(run.workspace, call, asked, verdict, policy), options, key=APPROVAL)
    word, (first, _, rest) = _word(answer), answer.strip().partition(" ")
    if _word(first) == STOP:
        raise DeniedError(f"a person stopped the run at {call.name}")
    if word not in _YES | {RUN, ALWAYS}:
        said = rest.strip() if _word(first) == NO else answer.strip()
        return Verdict("deny", f"a person said no{f': {said}' if said else ''}", verdict.rule)
    if word == ALWAYS and rule and policy.remember:
        policy.remember(rule)
    scope = "run" if word in (RUN, ALWAYS) else "once"
    await run.emit(
        ToolDecided(
            call=call.id,
            tool=call.name,
            do="allow",
            by="person",
            reason=verdict.reason,
            rule=verdict.rule,
            scope=scope,
            tainted=bool(asked.tainted),
        )
    )
    return replace(verdict, do="allow")


def _word(answer: str) -> str:
    """An answer without the space and the signs around it; a question mark stays, for who asks has not said yes."""
    return _AROUND.sub("", answer).casefold()


async def _denied(run: Run, call: ToolCall, verdict: Verdict) -> ToolResult:
    by = "person" if verdict.reason.startswith("a person") else "policy"
    await run.emit(
        ToolDecided(call=call.id, tool=call.name, do="deny", by=by, reason=verdict.reason, rule=verdict.rule)
    )
    rule = f" [{verdict.rule}]" if verdict.rule else ""
    return ToolResult(
        text=f"not allowed: {verdict.reason}{rule}. It was not run. Find another way, or end and say what you could not do.",
        ok=False,
    )


def question(workspace: Path, call: ToolCall, asked: Asked, verdict: Verdict, policy: Policy) -> str:
    """What a person needs to know to decide: the call whole, what an edit changes, why it is asked, what the run has read."""
    lines = [f"Allow {visible(call.name)}?{'' if policy.sandboxed else '  UNSANDBOXED'}"]
    lines += [f"  {name} = {visible(_text(value))}" for name, value in call.arguments.items()]
    lines += [f"  {line}" for line in edit(workspace, call.arguments)]
    lines.append(f"Why: {verdict.reason}{f' [{verdict.rule}]' if verdict.rule else ''}")
    if asked.tainted:
        lines.append(f"Untrusted text was read from: {', '.join(asked.tainted)}")
    return "\n".join(lines)


def edit(workspace: Path, arguments: Json) -> list[str]:
    """The lines that an edit would change, as a diff; nothing for other calls."""
    old, new, text = arguments.get("old_str"), arguments.get("new_str"), arguments.get("file_text")
    if isinstance(old, str):
        before, after = old, str(new or "")
    elif isinstance(text, str):
        data = beginning(workspace / str(arguments.get("path", "")), 4 * MOST_SHOWN, within=workspace)
        if data is None:
            return []
        try:
            before = codecs.getincrementaldecoder("utf-8")().decode(data)[:MOST_SHOWN]
        except UnicodeDecodeError:
            return []
        after = text
    else:
        return []
    lines = difflib.unified_diff(before.splitlines(), after[:MOST_SHOWN].splitlines(), lineterm="", n=1)
    return [visible(line) for line in lines if not line.startswith(("---", "+++"))]


def visible(text: str) -> str:
    """The text with everything that a terminal obeys or hides written out: control, format and tag characters."""
    text = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]} [... {len(text) - MOST_SHOWN:,} characters more]"
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co") else f"\\u{ord(char):04x}"
        for char in text
    )


def remembered(call: ToolCall, *, tainted: bool = False) -> Rule | None:
    """The rule that `always` would write, also for after untrusted text where it is answered then: for a shell command its first words, for a URL its host, else the tool; None where there is no safe one."""
    if "command" in call.arguments and call.name == "bash":
        lines = commands.plain(str(call.arguments["command"]))
        return (
            Rule(do="allow", tool=call.name, command=lines[0][:2], tainted=tainted)
            if lines and len(lines) == 1
            else None
        )
    if host := hosts.of_url(str(call.arguments.get("url", ""))):
        return Rule(do="allow", tool=call.name, host=host, tainted=tainted)
    return Rule(do="allow", tool=call.name, tainted=tainted)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
