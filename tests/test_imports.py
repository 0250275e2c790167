"""What stays unloaded until it is used, and how the parts may see each other."""

import subprocess
import sys
from importlib.metadata import distribution

import pytest

HEAVY = (
    "openai",
    "mcp",
    "playwright",
    "starlette",
    "pydantic",
    "rich",
    "typer",
    "xllamacpp",
    "jsonschema_rs",
    "docstring_parser",
    "huggingface_hub",
    "sqlite3",
)


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    return set(done.stdout.split())


def test_importing_handloom_loads_nothing_heavy() -> None:
    assert not set(HEAVY) & loaded_after("import handloom")


def test_help_loads_nothing_that_only_a_run_needs() -> None:
    code = "import sys; sys.argv = ['handloom', '--help']\nfrom handloom.cli import main\ntry: main()\nexcept SystemExit: pass"
    assert not set(HEAVY) - {"typer", "rich"} & loaded_after(code) - {"typer", "rich"}
    assert "pydantic" not in loaded_after(code)
    assert "openai" not in loaded_after(code)


def test_the_wiring_of_a_run_waits_with_the_client_until_a_request() -> None:
    loaded = loaded_after("import handloom; handloom.run")
    assert not {"openai", "xllamacpp", "rich", "typer"} & loaded


@pytest.mark.parametrize(
    "name",
    [
        "Agent",
        "Run",
        "RunResult",
        "Tool",
        "tool",
        "Message",
        "Memory",
        "Model",
        "PromptTemplate",
        "run",
        "resume",
        "HandloomError",
    ],
)
def test_the_public_names_are_there(name: str) -> None:
    import handloom

    assert getattr(handloom, name) is not None
    assert name in dir(handloom)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    import handloom

    with pytest.raises(AttributeError, match="nothing"):
        handloom.nothing  # noqa: B018


def test_the_core_needs_few_packages() -> None:
    """The distributions of a core install, counted through their own metadata."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    waiting = ["handloom"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in distribution(name).requires or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                waiting.append(need.name.lower().replace("_", "-"))
    assert len(found - {"handloom"}) <= 30, sorted(found)
