"""What keeps a run from doing harm: where its programs run, what its calls may do, which values nobody may see."""

from dataclasses import dataclass, field

from handloom.checkpoints import Checkpoints
from handloom.policy import Policy
from handloom.redaction import Redactor
from handloom.sandbox import SandboxSettings


@dataclass(frozen=True, kw_only=True)
class Safety:
    """Without a policy every call is allowed, which is for code that brings its own tools; the command line and `handloom.run` always give one."""

    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    policy: Policy | None = None
    checkpoints: Checkpoints | None = None
    redactor: Redactor = field(default_factory=Redactor)
