"""Which sandbox is taken, and what a person reads when none works."""

import stat
from pathlib import Path

import pytest

from handloom.errors import SandboxError, ToolError
from handloom.sandbox import SandboxSettings, open_sandbox
from handloom.sandbox.choose import refusal
from handloom.sandbox.engine import Engine, candidates
from handloom.sandbox.probe import complaint

pytestmark = pytest.mark.anyio


async def test_auto_takes_the_systems_own_and_never_none(tmp_path: Path):
    (workspace := tmp_path / "ws").mkdir()
    sandbox = await open_sandbox(workspace, SandboxSettings(cache=tmp_path / "cache"))
    assert (sandbox.kind, sandbox.isolated) == ("bwrap", True)
    await sandbox.aclose()


async def test_off_must_be_said_and_says_so(tmp_path: Path):
    sandbox = await open_sandbox(tmp_path, SandboxSettings(kind="off"))
    assert (sandbox.kind, sandbox.isolated, sandbox.banner.startswith("UNSANDBOXED")) == ("off", False, True)
    await sandbox.aclose()


@pytest.mark.parametrize(
    ("inside", "words"), [(True, "This is a container, which can be the sandbox itself"), (False, "install bubblewrap")]
)
def test_a_refusal_names_the_reason_the_fix_and_the_way_out(*, inside: bool, words: str):
    text = refusal("bwrap: No permissions", inside_container=inside)
    assert "no program is run: bwrap: No permissions" in text
    assert words in text
    assert 'sandbox.kind = "off"' in text


@pytest.mark.parametrize(
    ("script", "words"),
    [("echo 'setting up uid map: Permission denied' >&2; exit 1", "Permission denied"), ("exit 3", "exit code 3")],
)
def test_a_bubblewrap_that_is_there_and_does_not_work_is_found_out(tmp_path: Path, script: str, words: str):
    (fake := tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    assert words in complaint(str(fake))
    assert "No such file" in complaint(str(tmp_path / "gone"))


async def test_seatbelt_elsewhere_than_on_macos_is_refused(tmp_path: Path):
    with pytest.raises(SandboxError, match="sandbox-exec"):
        await open_sandbox(tmp_path, SandboxSettings(kind="seatbelt"))


async def test_a_container_without_an_engine_is_refused_with_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/gone.sock")
    with pytest.raises(SandboxError, match=r"no container engine answers .*gone\.sock.*start Docker or Podman"):
        await open_sandbox(tmp_path, SandboxSettings(kind="container"))
    with pytest.raises(SandboxError, match='has "none" or "full"'):
        await open_sandbox(tmp_path, SandboxSettings(kind="container", net="allowlist"))


def test_engines_are_looked_for_where_they_listen():
    assert candidates({"DOCKER_HOST": "unix:///x.sock"}) == [Path("/x.sock")]
    assert Path("/run/user/7/podman/podman.sock") in candidates({"XDG_RUNTIME_DIR": "/run/user/7"})


def test_a_missing_image_is_said_with_the_command_that_gets_it(tmp_path: Path):
    from fake_engine import FakeEngine

    with FakeEngine(tmp_path / "engine.sock"), pytest.raises(SandboxError, match="docker pull no/such:1"):
        Engine(tmp_path / "engine.sock").run({"Image": "no/such:1"})


def test_a_refusal_is_a_tools_fault_that_the_model_can_read():
    assert issubclass(SandboxError, ToolError)
