"""From settings to running agents: the one place that knows every part."""

from handloom.wiring.agents import build_agent, known_tools
from handloom.wiring.doors import resume, run
from handloom.wiring.models import EMBEDDED, NO_MODEL, Progress, open_model
from handloom.wiring.profiles import remember_mode, remember_profile, remembered_profiles
from handloom.wiring.reopening import reopen
from handloom.wiring.safety import checkpoints_for, policy_for, safety_for, sandbox_for
from handloom.wiring.session import Session, open_store
from handloom.wiring.tasks import begin
from handloom.wiring.wishes import Approval, Given, Wishes, limits_for

__all__ = [
    "EMBEDDED",
    "NO_MODEL",
    "Approval",
    "Given",
    "Progress",
    "Session",
    "Wishes",
    "begin",
    "build_agent",
    "checkpoints_for",
    "known_tools",
    "limits_for",
    "open_model",
    "open_store",
    "policy_for",
    "remember_mode",
    "remember_profile",
    "remembered_profiles",
    "reopen",
    "resume",
    "run",
    "safety_for",
    "sandbox_for",
]
