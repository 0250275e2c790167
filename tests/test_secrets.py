"""The canary: a secret in the environment, in the settings and in the workspace's `.env` is nowhere afterwards, whatever the tools and the faults."""

import json
import os
import subprocess
import sys
from pathlib import Path

from handloom import config, wiring
from handloom.testing.server import ScriptedServer, Step, error, reply

CANARY = "canary-4f9d1c77b2"
CANARIES = {"env": f"{CANARY}-env", "key": f"{CANARY}-key", "dotenv": f"{CANARY}-dotenv", "header": f"{CANARY}-header"}
FAULTS = (
    ("python_execute", {"code": "print(open('.env').read())"}),
    ("python_execute", {"code": "import os; print(dict(os.environ))"}),
    ("python_execute", {"code": "import base64; print(base64.b64encode(open('.env','rb').read()).decode())"}),
    ("python_execute", {"code": "raise ValueError(open('.env').read())"}),
    ("python_execute", {"code": "print(open('.env').read() * 3000)"}),
    ("python_execute", {"code": "import time; print(open('.env').read(), flush=True); time.sleep(60)", "timeout": 1}),
    ("python_execute", {"code": "import os; print(open('.env').read(), flush=True); os._exit(3)"}),
    ("bash", {"command": "cat .env; env; cat /proc/self/environ /proc/1/environ | tr '\\0' '\\n'; cat .env >&2"}),
    ("bash", {"command": 'cat .env; yes "$(cat .env)" | head -n 9000'}),
    ("bash", {"command": "python3 -c \"import json; print(json.dumps({'k': open('.env').read()}))\"; exit 5"}),
    ("find_files", {"text": "canary"}),
    ("str_replace_editor", {"command": "view", "path": ".env"}),
    ("str_replace_editor", {"command": "str_replace", "path": ".env", "old_str": "nothing like it", "new_str": "x"}),
    ("read_result", {"handle": "call00009"}),
    ("no_such_tool", {"x": 1}),
)


def conversation() -> list[Step]:
    steps: list[Step] = [error(500, f"the proxy says {CANARIES['key']}")]
    steps += [reply(calls=[call]) for call in FAULTS]
    return [*steps, reply(calls=[("terminate", {"status": "success", "answer": f"the key is {CANARIES['dotenv']}"})])]


def test_a_secret_is_nowhere_after_a_run_with_every_tool_and_fault(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "工作"
    home.mkdir()
    folder.mkdir()
    (folder / ".env").write_text(f"A_TOKEN={CANARIES['dotenv']}\n")
    with ScriptedServer(conversation()) as server:
        (home / "config.toml").write_text(
            '[agents.manus]\ntools = ["python_execute", "bash", "find_files", "str_replace_editor"]\n'
            f'[llm]\nmodel = "m"\ntool_mode = "native"\nbase_url = "{server.base_url}"\napi_key_cmd = "echo {CANARIES["key"]}"\n'
            f'[llm.headers]\nX-Auth = "{CANARIES["header"]}"\n'
        )
        environment = {
            "PATH": os.environ["PATH"],
            "HANDLOOM_HOME": str(home),
            "MY_SECRET_TOKEN": CANARIES["env"],
            "PYTHONUTF8": "1",
        }
        command = [sys.executable, "-m", "handloom", "run", f"use {CANARIES['env']}", "--json", "--max-turns", "30"]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        sent = json.dumps([request.body for request in server.requests], ensure_ascii=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b'"tool.returned"') == len(FAULTS) + 1
    shown = subprocess.run(
        [sys.executable, "-m", "handloom", "runs", "export"],
        cwd=folder,
        env=environment,
        capture_output=True,
        timeout=60,
        check=True,
    )
    config = (home / "config.toml").read_bytes()
    kept = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    for name, data in {
        "stdout": done.stdout,
        "stderr": done.stderr,
        "requests": sent.encode(),
        "export": shown.stdout,
        **kept,
    }.items():
        if data != config:
            at = data.find(CANARY.encode())
            assert at < 0, (name, data[max(0, at - 200) : at + 100])
    assert b"***" in done.stdout


def test_a_dotenv_may_be_a_pipe_or_a_circle_and_is_known_behind_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    loaded = config.load(folder=folder, environment={"HANDLOOM_HOME": str(tmp_path)})
    os.mkfifo(folder / ".env")
    assert CANARY not in wiring.safety_for(loaded, folder).redactor.values
    (folder / ".env").unlink()
    (folder / ".env").symlink_to(".env")
    assert CANARY not in wiring.safety_for(loaded, folder).redactor.values
    (folder / ".env").unlink()
    (folder / ".env").symlink_to("../shared.env")
    (tmp_path / "shared.env").write_text(f"A_TOKEN={CANARY}\n")
    assert CANARY in wiring.safety_for(loaded, folder).redactor.values
