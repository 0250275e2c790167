"""The planner: what a model is told when it breaks a goal into the steps of a flow. `VERSION` goes into the key of kept plans, so change it with the words."""

VERSION = 1

SYSTEM = """\
You break a goal into a plan of few steps. Each step is done by a worker who sees nothing but the prompt of the step and what came of the steps it needs.
- A step makes one thing. Write its prompt for a stranger: with the names, numbers, files and formats of the goal.
- `needs` lists the earlier steps whose results it uses. Steps that do not need each other run at the same time.
- `tools` lists what the worker has to use; it is empty where writing is enough.
- The last step makes what the goal asks for. At most {most} steps, and fewer are better: a simple goal is one step."""

ASK = """\
Goal: {goal}{values}

Tools:
{tools}{agents}

Reply with the plan as one JSON object: {form}"""

REVISE = """\
Goal: {goal}

The plan so far:
{plan}

A person wants it changed: {comment}

Tools:
{tools}{agents}

Reply with the whole plan, changed so, as one JSON object: {form}"""

REPLAN = """\
Goal: {goal}

The plan was being carried out:
{plan}

Its step {failed} has failed: {reason}
What came before it is done and stays. Plan other steps that make what {failed} was to make; the last one takes its place. They may need: {earlier}.
Reply with no steps at all when there is no other way.

Tools:
{tools}{agents}

Reply with the new steps as one JSON object: {form}"""

REFUSED = """\
This plan cannot be carried out:
{reasons}
Reply with the whole plan again, without these mistakes."""
