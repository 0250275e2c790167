"""The items of a `for_each` step."""

import json
from typing import Any

from handloom.errors import FlowError
from handloom.flow import templates
from handloom.flow.order import Order
from handloom.messages import is_list
from handloom.plans import PlanLimits


def items_of(order: Order) -> tuple[Any, ...]:
    """The items that a step is carried out for. Raises: FlowError when it is no list, or too long a one."""
    form = order.step.for_each
    value = templates.fill_all(form, order.values(*templates.reads(form)))
    most = PlanLimits.model_validate(order.known.plan.plan.get("limits", {})).max_items
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            hint = "give the step it comes from `output: {type: array}`"
            raise FlowError(f"for_each needs a list, and this is text: {value[:80]!r}; {hint}") from None
    if not is_list(value):
        raise FlowError(f"for_each needs a list, and this is {templates.as_text(value)[:80]}")
    if len(value) > most:
        raise FlowError(f"for_each has {len(value):,} items, more than limits.max_items allows ({most:,})")
    return tuple(value)
