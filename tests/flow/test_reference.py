"""The page of the flow file names every key with its place, and no other."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from handloom import plans

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "flow-file.md"
TABLES = {
    "Plan": plans.Plan,
    "Input": plans.Input,
    "Defaults": plans.Defaults,
    "Plan limits": plans.PlanLimits,
    "Model pace": plans.ModelPace,
    "Step": plans.Step,
    "Retry": plans.Retry,
    "Repeat": plans.Repeat,
    "Approval": plans.Approval,
    "Cache rule": plans.CacheRule,
    "Step limits": plans.StepLimits,
}


@pytest.mark.parametrize(("heading", "model"), TABLES.items())
def test_the_page_names_each_key_and_no_other(heading: str, model: type[BaseModel]) -> None:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(field.alias or name for name, field in model.model_fields.items())
