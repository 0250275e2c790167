"""From settings to what keeps a run from doing harm: its sandbox, its policy, the secrets that nobody may see."""

import json
import os
from dataclasses import asdict
from pathlib import Path

from handloom.agents.reading import beginning
from handloom.checkpoints import Checkpoints
from handloom.config import RULES_FILE, Folders, Loaded
from handloom.llm.fallback import FallbackModel
from handloom.llm.model import Model
from handloom.llm.openai import OpenAIModel
from handloom.policy import Hook, Policy, Rule, Taint
from handloom.redaction import Redactor
from handloom.runs import Safety
from handloom.sandbox import Host, SandboxSettings
from handloom.wiring.wishes import Approval

DOTENV_BYTES = 100_000


def safety_for(loaded: Loaded, workspace: Path, *, approval: Approval = "", model: Model | None = None) -> Safety:
    """What the settings say for a run in `workspace`."""
    return Safety(
        sandbox=sandbox_for(loaded),
        policy=policy_for(loaded, approval),
        checkpoints=checkpoints_for(loaded, workspace) if loaded.settings.checkpoints else None,
        redactor=redactor_for(loaded, workspace, model),
    )


def checkpoints_for(loaded: Loaded, workspace: Path) -> Checkpoints:
    """Where the states of a workspace are kept."""
    return Checkpoints.of(workspace, loaded.folders.data / "checkpoints")


def sandbox_for(loaded: Loaded) -> SandboxSettings:
    table = loaded.settings.sandbox
    return SandboxSettings(
        kind=table.kind,
        net=table.net,
        allow=tuple(Host(**host.model_dump()) for host in table.allow),
        readable=tuple(Path(path).expanduser() for path in table.readable),
        image=table.image,
        cache=loaded.folders.cache / "sandbox",
        **table.limits.model_dump(),
    )


def policy_for(loaded: Loaded, approval: Approval = "") -> Policy:
    """The rules of all files, under the mode that was asked for."""
    table, sandbox = loaded.settings.policy, loaded.settings.sandbox
    return Policy(
        mode=approval if approval in ("ask", "deny") else table.mode,
        yes=approval == "yes",
        alone=table.alone,
        rules=tuple(rule.rule() for rule in table.rule),
        taint=Taint(**table.taint.model_dump()),
        hooks=tuple(Hook(**hook.model_dump()) for hook in table.hook),
        remember=lambda rule: remember_rule(loaded.folders, rule),
        sandboxed=sandbox.kind != "off",
        network=sandbox.net != "none",
    )


def remember_rule(folders: Folders, rule: Rule) -> None:
    """Add a rule to the file of what a person answered with "always"."""
    path = folders.config / RULES_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {name: value for name, value in asdict(rule).items() if value and name != "place"}
    # A JSON string, or list of strings, reads the same as TOML.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items()]
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(["[[policy.rule]]\n", *lines, "\n"]))


def redactor_for(loaded: Loaded, workspace: Path, model: Model | None = None) -> Redactor:
    """Every secret that is known here: the keys of models, variables that are named like secrets, and those of the workspace's `.env`."""
    llm = loaded.settings.llm
    sections = (llm, *llm.named.values())
    keys = [os.environ.get(section.api_key_env, "") for section in sections]
    keys.append(os.environ.get(loaded.settings.email.password_env, ""))
    headers = [value for section in sections for name, value in section.headers.items() if "auth" in name.lower()]
    return Redactor.of(*keys, *headers, *_keys(model), environment=os.environ, dotenv=_dotenv(workspace))


def _dotenv(workspace: Path) -> str:
    """The workspace's `.env`, wherever a link leads: what stands in it is hidden, not shown."""
    path = Path(os.path.realpath(workspace / ".env"))
    return (beginning(path, DOTENV_BYTES, within=path.parent) or b"").decode("utf-8", "replace")


def _keys(model: Model | None) -> list[str]:
    """The keys with which a model is asked, from wherever they came."""
    match model:
        case OpenAIModel():
            return [model.endpoint.api_key.reveal()]
        case FallbackModel():
            return [key for each in model.models for key in _keys(each)]
        case _:
            return []
