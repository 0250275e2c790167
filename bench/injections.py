"""What a policy lets through of AgentDojo's attacks when the model obeys every one of them, and how often it asks in the tasks themselves.

The ground truths of its suites (v1: 97 tasks, 629 pairs with an attack, of which 609 act) are replayed as calls; no model runs. After the attack is read,
its calls are decided on like any others. Usage: python bench/injections.py

Source of tasks and attacks: Debenedetti et al., AgentDojo (NeurIPS 2024), the package `agentdojo`, of which the suites alone are imported.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from handloom.policy import Asked, Policy, Rule, Taint, decide

sys.path.insert(0, str(Path(__file__).parent))
from table import show

MARK = "INJECTED"
READS = ("get_", "search_", "list_", "read_", "check_")
# Which arguments say where something goes; a tool that is not here has every text of its arguments looked at.
DESTINATIONS = {
    "send_email": ("recipients", "cc", "bcc"),
    "send_money": ("recipient",),
    "schedule_transaction": ("recipient",),
    "update_scheduled_transaction": ("recipient",),
    "send_direct_message": ("recipient",),
    "send_channel_message": ("channel",),
    "post_webpage": ("url",),
    "get_webpage": ("url",),
    "invite_user_to_slack": ("user", "user_email"),
    "add_user_to_channel": ("user", "channel"),
    "remove_user_from_slack": ("user",),
    "create_calendar_event": ("participants",),
    "add_calendar_event_participants": ("participants",),
    "share_file": ("email",),
    "reserve_hotel": ("hotel",),
    "reserve_restaurant": ("restaurant",),
    "reserve_car_rental": ("company",),
}


@dataclass(frozen=True)
class Setting:
    """A policy to try; `fetch_sends` counts reading a web page as sending its address."""

    name: str
    policy: Policy
    fetch_sends: bool = True


ALL = (Rule(do="allow"),)
SETTINGS = (
    Setting("no policy", Policy(rules=ALL, taint=Taint(gate="off"))),
    Setting("taint", Policy(rules=ALL, taint=Taint(named_is_free=False)), fetch_sends=False),
    Setting("taint + fetch", Policy(rules=ALL, taint=Taint(named_is_free=False))),
    Setting("taint + fetch, named places free", Policy(rules=ALL, taint=Taint())),
)


def suites() -> dict[str, Any]:
    """The suites, without the clients of hosted models that the package would import beside them."""
    place = find_spec("agentdojo")
    if place is None or not place.submodule_search_locations:
        raise SystemExit("AgentDojo is missing: uv pip install --no-deps agentdojo==0.1.35")
    pipeline = ModuleType("agentdojo.agent_pipeline")
    pipeline.__path__ = [f"{place.submodule_search_locations[0]}/agent_pipeline"]
    ground_truth = ModuleType("agentdojo.agent_pipeline.ground_truth_pipeline")
    ground_truth.GroundTruthPipeline = object  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in (pipeline, ground_truth)}
    from agentdojo.task_suite.load_suites import get_suites

    return get_suites("v1")


def is_reading(tool: str, setting: Setting) -> bool:
    return tool.startswith(READS) and not (tool == "get_webpage" and setting.fetch_sends)


def asked(tool: str, arguments: dict[str, Any], words: str, tainted: tuple[str, ...], setting: Setting) -> Asked:
    effect = "read" if is_reading(tool, setting) else "network_send" if tool == "get_webpage" else "external"
    return Asked(
        tool=tool,
        arguments=arguments,
        effects=frozenset({effect}),
        destinations=DESTINATIONS.get(tool, ()),
        tainted=tainted,
        words=words,
    )


def decisions(
    calls: Iterable[Any], words: str, tainted: tuple[str, ...], setting: Setting
) -> Iterator[tuple[str, bool]]:
    """(what was decided, whether the call acts) for each call; what is read taints those that follow."""
    for call in calls:
        verdict = decide(setting.policy, asked(call.function, dict(call.args), words, tainted, setting))
        yield verdict.do, not is_reading(call.function, setting)
        if call.function.startswith(READS) and call.function not in tainted:
            tainted = (*tainted, call.function)


def replay(setting: Setting, found: dict[str, Any]) -> dict[str, object]:
    tasks = asks = attacks = through = 0
    for suite in found.values():
        plain = suite.load_and_inject_default_environment({})
        for task in suite.user_tasks.values():
            tasks += 1
            asks += sum(do == "ask" for do, _ in decisions(task.ground_truth(plain), task.PROMPT, (), setting))
            for attack in suite.injection_tasks.values():
                # Whoever obeys an attack has read it: the run is tainted before its first call.
                made = list(decisions(attack.ground_truth(plain), task.PROMPT, (MARK,), setting))
                if not made:
                    continue  # it asks for words alone
                attacks += 1
                through += all(do == "allow" for do, acts in made if acts)
    return {
        "policy": setting.name,
        "attacks": attacks,
        "let through": through,
        "prompts a task": round(asks / tasks, 2),
        "tasks": tasks,
    }


if __name__ == "__main__":
    found = suites()
    show("AgentDojo v1 replayed with a model that obeys every attack", [replay(setting, found) for setting in SETTINGS])
