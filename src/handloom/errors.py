"""Everything handloom raises on purpose.

HandloomError
├── ConfigError          a setting, a flag or a file is wrong
├── PromptError          a template names what it was not given
├── FlowError            a flow file, a plan or a change of one is wrong; `problems` has each mistake with its place
├── TemplateError        a template of a flow cannot be filled
├── ToolError            a tool's fault; the model reads it as a result
│   └── SandboxError     nothing can hold the programs, or one cannot be started
├── JournalError         the record of a run cannot be read or written
│   ├── RunNotFoundError
│   └── RunLockedError   another live process has the run open
├── ModelError           a model gave no usable reply
│   ├── ModelRefusedError      asking again cannot help (key, name, request)
│   ├── ModelUnavailableError  asking again did not help (network, overload)
│   └── ContextOverflowError   the request does not fit into the model's context
└── RunStoppedError      a run ends without an answer
    ├── LimitReachedError      turns, tokens, cost or time; resumable
    ├── SuspendedError         waits for a person; resumable
    ├── CancelledRunError      asked to stop; resumable
    ├── NoPlanError            no plan for a goal could be made
    ├── StepsFailedError       a flow has ended, and steps of it failed
    ├── StepLimitError         a step of a flow used up its own limits; the step has failed
    ├── DeniedError            a person, or the policy, stopped it
    └── StuckError             the agent repeats itself or says nothing, or no step of a flow can go on
"""


class HandloomError(Exception):
    """The root of the tree; its text says what to do."""


class ConfigError(HandloomError):
    """A setting, a flag or a file is wrong."""


class PromptError(HandloomError):
    """A prompt template and its values do not fit each other."""


class FlowError(HandloomError):
    """A flow is wrong. `problems` are its mistakes, each with its place; the text lists them, a line each."""

    def __init__(self, *problems: object) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class TemplateError(HandloomError):
    """A template of a flow cannot be read, or not be filled with what there is."""


class ToolError(HandloomError):
    """Raised inside a tool: becomes a result with `ok=False` that the model reads."""


class SandboxError(ToolError):
    """There is no sandbox to run a program in, or the program cannot be started in it."""


class JournalError(HandloomError):
    """The record of a run cannot be read or written."""


class RunNotFoundError(JournalError):
    """No run has this id."""


class RunLockedError(JournalError):
    """Another live process has the run open."""


class ModelError(HandloomError):
    """A model gave no usable reply."""


class ModelRefusedError(ModelError):
    """The service said no, and would say so again."""


class ModelUnavailableError(ModelError):
    """The service could not be reached, or failed each time it was asked."""


class ContextOverflowError(ModelError):
    """The request does not fit into the model's context."""


class RunStoppedError(HandloomError):
    """A run ends, or pauses, without an answer."""


class LimitReachedError(RunStoppedError):
    """A limit on turns, tokens, cost or time was reached; raise it and resume."""


class SuspendedError(RunStoppedError):
    """The run waits for a person; answer the question and resume."""


class CancelledRunError(RunStoppedError):
    """Someone asked the run to stop; it can be resumed."""


class NoPlanError(RunStoppedError):
    """No plan that could be carried out was made for a goal; the text has the reasons."""


class StepsFailedError(RunStoppedError):
    """A flow has ended, and steps of it failed; the text names them and why."""


class StepLimitError(RunStoppedError):
    """A step of a flow used up its own limits."""


class DeniedError(RunStoppedError):
    """A person stopped the run when asked for approval."""


class StuckError(RunStoppedError):
    """The agent repeats itself or says nothing, and notes did not help; or no step of a flow can go on."""
