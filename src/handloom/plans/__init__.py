"""What a plan is: the values of a flow file, whether a file, a program or a planner made them."""

from handloom.plans.plan import (
    Approval,
    CacheRule,
    Defaults,
    Input,
    ModelPace,
    Plan,
    PlanLimits,
    Repeat,
    Retry,
    Step,
    StepLimits,
    without_nulls,
)

__all__ = [
    "Approval",
    "CacheRule",
    "Defaults",
    "Input",
    "ModelPace",
    "Plan",
    "PlanLimits",
    "Repeat",
    "Retry",
    "Step",
    "StepLimits",
    "without_nulls",
]
