"""The plainest agent: it works with whatever tools it is given."""

from handloom.prompts.template import PromptTemplate

SYSTEM_PROMPT = "You solve the user's task by calling tools. Act; do not describe what you would do."
NEXT_STEP_PROMPT = "Call the next tool, or terminate with the complete answer when the task is done."

PROMPT = PromptTemplate(system=SYSTEM_PROMPT, next_step=NEXT_STEP_PROMPT)
