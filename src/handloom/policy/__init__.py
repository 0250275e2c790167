"""What a tool call may do: rules, modes and taint decide whether it is allowed, asked for or denied."""

from handloom.policy import commands
from handloom.policy.decide import Asked, Verdict, decide
from handloom.policy.hooks import Hook, Refused, run_hooks
from handloom.policy.policy import Do, Mode, Policy, Rule, Taint

__all__ = [
    "Asked",
    "Do",
    "Hook",
    "Mode",
    "Policy",
    "Refused",
    "Rule",
    "Taint",
    "Verdict",
    "commands",
    "decide",
    "run_hooks",
]
