"""Flow: a plan together with where it came from, so that its sub-flows are found and its mistakes have a place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handloom.flow import check, files
from handloom.flow.yaml import Document
from handloom.messages import Json
from handloom.plans import Plan, Step


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What `handloom.run_flow` carries out. `folder` is where the files of sub-flows are."""

    plan: Plan
    folder: Path | None = None
    document: Document = field(default_factory=Document, repr=False, compare=False)

    @classmethod
    def load(cls, path: Path | str) -> "Flow":
        """From a file. Raises: FlowError with every mistake and its line."""
        file = Path(path)
        plan, document = files.load(file)
        return cls(plan=plan, folder=file.resolve().parent, document=document)

    @classmethod
    def parse(cls, text: str, *, folder: Path | None = None) -> "Flow":
        """From a text in YAML or JSON. Raises: FlowError."""
        plan, document = files.parse(text)
        return cls(plan=plan, folder=folder, document=document)

    @classmethod
    def of(cls, steps: Mapping[str, Step | Json], *, folder: Path | None = None, **fields: Any) -> "Flow":
        """From values in a program; `fields` are those of a plan: name, inputs, defaults, limits, outputs. Raises: FlowError."""
        plan = files.plan_of({"steps": dict(steps), **fields})
        return cls(plan=plan, folder=folder)

    def check(self, around: check.Surroundings = check.ANYTHING) -> None:
        """Raises: FlowError with every mistake that can be found before it runs."""
        check.check(self.plan, around, self.document)

    @property
    def text(self) -> str:
        """The flow as a file."""
        return files.text_of(self.plan)
