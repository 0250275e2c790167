"""The command as a person runs it: a process of its own, against a scripted service."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from handloom.events import RunEnded, RunStarted, RunSuspended, decode
from handloom.testing.server import ScriptedServer, Step, error, hang, reply


@dataclass
class Shell:
    """A person's shell: a home, a folder to work in, and the service that the settings name."""

    home: Path
    folder: Path
    url: str = "http://127.0.0.1:9/v1"
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HANDLOOM_HOME": str(self.home),
            "HANDLOOM_LLM__MODEL": "scripted",
            "HANDLOOM_LLM__BASE_URL": self.url,
            "HANDLOOM_LLM__TOOL_MODE": "native",
            **self.variables,
        }

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "handloom", *words],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "handloom", *words],
            cwd=self.folder,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=50,
            check=False,
        )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    home, folder = tmp_path / "home", tmp_path / "工作 folder"
    home.mkdir()
    folder.mkdir()
    return Shell(home, folder)


def end(answer: str, status: str = "success") -> Step:
    return reply(calls=[("terminate", {"status": status, "answer": answer})])


def python(code: str) -> Step:
    return reply(calls=[("python_execute", {"code": code})])


def test_the_answer_alone_is_on_standard_output(shell: Shell) -> None:
    with ScriptedServer([python("print(6 * 7)"), end("答案是 42 🎉")]) as server:
        shell.url = server.base_url
        done = shell.run("run", "六乘七是多少？")
    assert (done.returncode, done.stdout) == (0, "答案是 42 🎉\n")
    assert "turn 1" in done.stderr
    assert 'python_execute(code="print(6 * 7)")' in done.stderr
    assert server.requests[0].body["messages"][1]["content"] == "六乘七是多少？"
    assert server.requests[1].body["messages"][3]["content"].strip() == "42"


def test_a_failed_task_gives_one(shell: Shell) -> None:
    with ScriptedServer([end("no such file", "failure")]) as server:
        shell.url = server.base_url
        done = shell.run("run", "read it")
    assert (done.returncode, done.stdout) == (1, "no such file\n")


def test_a_limit_gives_four_and_the_run_goes_on_with_a_higher_one(shell: Shell) -> None:
    with ScriptedServer([python("1"), python("2"), end("done")]) as server:
        shell.url = server.base_url
        first = shell.run("run", "count", "--max-turns", "2")
        assert (first.returncode, first.stdout) == (4, "")
        assert "handloom resume" in first.stderr
        second = shell.run("resume", "--max-turns", "9")
    assert (second.returncode, second.stdout) == (0, "done\n")
    assert len(server.requests) == 3


def test_a_question_gives_three_and_answering_it_goes_on(shell: Shell) -> None:
    with ScriptedServer([reply(calls=[("ask_human", {"question": "Which file?"})]), end("took b.txt")]) as server:
        shell.url = server.base_url
        asked = shell.run("run", "take a file")
        assert asked.returncode == 3
        assert "Which file?" in asked.stderr
        run = json.loads(shell.run("runs", "list", "--json").stdout.splitlines()[0])
        assert (run["status"], run["task"]) == ("suspended (question)", "take a file")
        assert "question  Which file?" in shell.run("runs", "show").stdout
        answered = shell.run("runs", "answer", run["id"], "b.txt")
        assert (answered.returncode, answered.stdout) == (0, "took b.txt\n")
        again = shell.run("runs", "answer", run["id"], "c.txt")
    assert again.returncode == 2
    assert "no open question" in again.stderr
    assert server.requests[1].body["messages"][-2]["content"] == "b.txt"


def test_a_model_out_of_reach_gives_six_and_the_run_can_go_on(shell: Shell) -> None:
    with ScriptedServer([error(401, "invalid_api_key", "no")]) as server:
        shell.url = server.base_url
        done = shell.run("run", "x")
    assert done.returncode == 6
    assert "api_key_env" in done.stderr
    with ScriptedServer([end("back")]) as server:
        shell.url = server.base_url
        assert shell.run("resume").stdout == "back\n"


@pytest.mark.parametrize(
    ("words", "variables", "said"),
    [
        (("run", ""), {}, "the task is empty"),
        (("run", "-"), {}, "the task is empty"),
        (("run", "x", "--agent", "nobody"), {}, "there is no agent 'nobody'"),
        (("run", "x", "--timeout", "soon"), {}, "no duration"),
        (("run", "x", "-C", "nowhere"), {}, "no folder to work in"),
        (("run", "x", "--schema", "missing.json"), {}, "cannot be read"),
        (("run", "x", "-c"), {}, "no earlier conversation"),
        (("run", "x", "-o", "missing/answer.txt"), {}, "no file in a folder that exists"),
        (("run", "x"), {"HANDLOOM_LLM__MODLE": "y"}, "did you mean 'model'"),
        (("resume",), {}, "no run waits"),
        (("resume", "rx"), {}, "no runs yet"),
        (("runs", "show"), {}, "no runs yet"),
        (
            ("run", "x", "-m", "gpt-4o"),
            {"HANDLOOM_LLM__BASE_URL": "https://api.openai.com/v1"},
            "needs a key: set OPENAI_API_KEY",
        ),
    ],
)
def test_a_mistake_of_use_gives_two_and_says_what_to_do(
    shell: Shell, words: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    shell.variables = variables
    done = shell.run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_unknown_run_is_said(shell: Shell) -> None:
    with ScriptedServer([reply("x")]) as server:
        shell.url = server.base_url
        shell.run("run", "x")
    done = shell.run("runs", "show", "nothing")
    assert done.returncode == 1
    assert "no run 'nothing'" in done.stderr
    whole = json.loads(shell.run("runs", "list", "--json").stdout)["id"]
    assert whole in shell.run("runs", "show", whole[:8]).stdout


def test_json_is_the_log_of_events_and_ends_with_the_end(shell: Shell) -> None:
    with ScriptedServer([python("1"), end("一"), reply("二")]) as server:
        shell.url = server.base_url
        first = [decode(line) for line in shell.run("run", "x", "--json").stdout.splitlines()]
        second = [decode(line) for line in shell.run("run", "y", "-c", "--json").stdout.splitlines()]
    assert isinstance(first[0], RunStarted)
    assert isinstance(first[-1], RunEnded)
    assert [event.seq for event in first] == list(range(len(first)))
    assert isinstance(second[-1], RunEnded)
    assert second[-1].answer == "二"
    assert second[0].seq == len(first), "the conversation goes on in the same log"


def test_the_task_may_come_from_standard_input_and_the_answer_go_to_a_file(shell: Shell) -> None:
    with ScriptedServer([reply("好的")]) as server:
        shell.url = server.base_url
        done = shell.run("run", "-", "-o", "答案.txt", stdin="从标准输入\n第二行\n")
    assert done.returncode == 0
    assert (shell.folder / "答案.txt").read_text(encoding="utf-8") == "好的\n"
    assert server.requests[0].body["messages"][1]["content"] == "从标准输入\n第二行"


def test_a_schema_binds_the_answer(shell: Shell) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    (shell.folder / "schema.json").write_text(json.dumps(schema))
    wrong = reply(calls=[("terminate", {"status": "success", "answer": {"n": "seven"}})])
    right = reply(calls=[("terminate", {"status": "success", "answer": {"n": 7}})])
    with ScriptedServer([wrong, right]) as server:
        shell.url = server.base_url
        done = shell.run("run", "seven", "--schema", "schema.json")
    assert json.loads(done.stdout) == {"n": 7}
    assert (
        server.requests[0].body["tools"][-1]["function"]["parameters"]["properties"]["answer"]["properties"]
        == schema["properties"]
    )


def test_a_conversation_goes_on_in_its_folder(shell: Shell) -> None:
    with ScriptedServer([reply("I am Ada"), reply("You asked my name")]) as server:
        shell.url = server.base_url
        shell.run("run", "who are you?")
        done = shell.run("run", "what did I ask?", "-c")
    assert done.stdout == "You asked my name\n"
    texts = [message["content"] for message in server.requests[1].body["messages"]]
    assert "who are you?" in texts
    assert "I am Ada" in texts


def test_a_flow_is_no_conversation_to_go_on_with(shell: Shell) -> None:
    (shell.folder / "flow.yaml").write_text("steps: {a: {run: echo hello}}\n")
    with ScriptedServer([reply("I am Ada"), reply("You asked my name")]) as server:
        shell.url = server.base_url
        shell.run("run", "who are you?")
        assert shell.run("flow", "run", "flow.yaml").returncode == 0
        done = shell.run("run", "what did I ask?", "-c")
    assert done.stdout == "You asked my name\n"


def test_a_run_goes_on_with_the_settings_of_its_own_folder(shell: Shell) -> None:
    (shell.folder / ".handloom").mkdir()
    (shell.folder / ".handloom" / "config.toml").write_text('[[policy.rule]]\ndo = "deny"\ntool = "python_execute"\n')
    elsewhere = shell.folder.parent / "elsewhere"
    elsewhere.mkdir()
    with ScriptedServer([python("print(6 * 7)"), python("print(6 * 7)"), end("it is denied")]) as server:
        shell.url = server.base_url
        assert shell.run("run", "compute", "--max-turns", "1").returncode == 4
        shell.folder = elsewhere
        done = shell.run("resume", "--max-turns", "5")
    assert done.stdout == "it is denied\n"
    results = [message["content"] for message in server.requests[-1].body["messages"] if message["role"] == "tool"]
    assert ["42" in result for result in results] == [False, False]
    assert "is not used" in done.stderr, "the folder is not trusted, and its rule holds all the same"


def test_what_is_no_utf8_in_a_pipe_is_read_as_far_as_it_can_be(shell: Shell) -> None:
    with ScriptedServer([reply("one")]) as server:
        shell.url = server.base_url
        done = subprocess.run(
            [sys.executable, "-m", "handloom", "chat"],
            cwd=shell.folder,
            env=shell.environment() | {"LC_ALL": "C.UTF-8"},
            input=b"caf\xe9\n",
            capture_output=True,
            timeout=50,
            check=False,
        )
    assert done.stdout == b"one\n", done.stderr


def test_chat_is_one_conversation(shell: Shell) -> None:
    with ScriptedServer([reply("one"), reply("two")]) as server:
        shell.url = server.base_url
        done = shell.run("chat", stdin="first\nsecond\n")
    assert done.stdout == "one\ntwo\n"
    assert [m["content"] for m in server.requests[1].body["messages"] if m["role"] == "assistant"] == ["one"]


def test_an_image_goes_with_the_task(shell: Shell) -> None:
    (shell.folder / "图.png").write_bytes(b"\x89PNG")
    shell.variables["HANDLOOM_LLM__VISION"] = "true"
    with ScriptedServer([reply("a picture")]) as server:
        shell.url = server.base_url
        assert shell.run("run", "what is it?", "--image", "图.png").returncode == 0
    assert server.requests[0].body["messages"][1]["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw=="


def test_runs_are_listed_shown_logged_and_exported(shell: Shell) -> None:
    with ScriptedServer([python("print('结果')"), end("done ```")]) as server:
        shell.url = server.base_url
        shell.run("run", "任务 one")
    listed = shell.run("runs", "list").stdout
    assert "任务 one" in listed
    assert "success" in listed
    shown = shell.run("runs", "show").stdout
    assert "python_execute: 1 calls, 0 failed" in shown
    logged = [decode(line) for line in shell.run("runs", "logs", "--json").stdout.splitlines()]
    exported = json.loads(shell.run("runs", "export", "--format", "json").stdout)
    assert [event["kind"] for event in exported] == [event.__struct_config__.tag for event in logged]
    document = shell.run("runs", "export").stdout
    assert "## Turn 1" in document
    assert "结果" in document
    assert shell.run("runs", "export", "--format", "pdf").returncode == 2


def test_what_a_model_wrote_is_shown_and_exported_without_what_moves_a_terminal(shell: Shell) -> None:
    wicked = "before\x1b[2J\x1b]0;title\x07 \u202eafter"
    steps = [reply(f"thinking {wicked}", calls=[("python_execute", {"code": "1"})]), reply(wicked)]
    asked = [reply(calls=[("ask_human", {"question": wicked})])]
    with ScriptedServer([*steps, *asked]) as server:
        shell.url = server.base_url
        shell.run("run", wicked)
        for shown in (shell.run("runs", "show").stdout, shell.run("runs", "export").stdout):
            assert "before after" in shown
            assert not {"\x1b", "\x07", "\u202e"} & set(shown)
        shell.run("run", "ask")
        assert "question  before after\n" in shell.run("runs", "show").stdout


def test_interrupting_once_stops_at_a_safe_point_and_the_run_can_go_on(shell: Shell) -> None:
    with ScriptedServer([hang(60, "never", after_chunks=0), end("after all")]) as server:
        shell.url = server.base_url
        process = shell.start("run", "x")
        wait_for(lambda: bool(server.requests))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130, errors
        assert "handloom resume" in errors
        assert shell.run("resume").stdout == "after all\n"


def test_interrupting_twice_stops_in_the_middle_of_a_call(shell: Shell) -> None:
    with ScriptedServer([python("import time; print('on'); time.sleep(60)"), end("x")]) as server:
        shell.url = server.base_url
        process = shell.start("run", "x")
        wait_for(lambda: log_has(shell, "tool.called"))
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None, "the call is a safe point's other side"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 130
        resumed = shell.run("resume", "--json")
    assert "outcome unknown" in resumed.stdout


def test_terminating_gives_143_and_suspends(shell: Shell) -> None:
    with ScriptedServer([hang(60, "never")]) as server:
        shell.url = server.base_url
        process = shell.start("run", "x")
        wait_for(lambda: bool(server.requests))
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 143
    events = [decode(line) for line in shell.run("runs", "logs", "--json").stdout.splitlines()]
    assert isinstance(events[-1], RunSuspended)


def test_without_a_model_there_are_three_ways_forward(shell: Shell) -> None:
    blocked = "import sys; sys.modules['xllamacpp'] = None; from handloom.cli import main; sys.argv = ['handloom', 'run', 'x']; main()"
    environment = {**shell.environment(), "HANDLOOM_LLM__MODEL": ""}
    done = subprocess.run(
        [sys.executable, "-c", blocked],
        cwd=shell.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 2
    assert all(f"  {number}. " in done.stderr for number in (1, 2, 3))


def test_doctor_and_config_say_what_holds(shell: Shell) -> None:
    (shell.folder / ".handloom").mkdir()
    (shell.folder / ".handloom" / "config.toml").write_text("[limits]\nmax_turns = 3\n")
    assert "config trust" in shell.run("config", "show").stdout
    assert shell.run("config", "trust").returncode == 0
    assert '"max_turns": 3' in shell.run("config", "show").stdout
    assert str(shell.home / "config.toml") in shell.run("config", "path").stdout
    assert json.loads(shell.run("config", "schema").stdout)["additionalProperties"] is False
    checked = shell.run("doctor")
    assert checked.returncode == 0, checked.stdout
    assert "ok    runs: " in checked.stdout
    assert "scripted" in shell.run("model", "list").stdout


def test_probing_a_model_is_remembered(shell: Shell) -> None:
    seen: list[str] = []

    def service(body: dict[str, object]) -> Step:
        seen.append("tools" if "tools" in body else "schema" if "response_format" in body else "plain")
        if "tools" in body:
            return reply('{"name": "report_number", "arguments": {"number": 7}}')
        return reply('{"colour": "green"}' if "response_format" in body else "1, 2, 3")

    del shell.variables
    shell.variables = {"HANDLOOM_LLM__TOOL_MODE": "auto"}
    with ScriptedServer(service) as server:
        shell.url = server.base_url
        probed = shell.run("model", "probe")
        assert "tools        structured" in probed.stdout, probed.stderr
        assert "calls come as text" in probed.stdout
        assert "structured" in (shell.home / "cache" / "profiles.json").read_text()
    assert {"tools", "schema", "plain"} <= set(seen)


def wait_for(condition: object, seconds: float = 20) -> None:
    """Wait until `condition()` is true; a test must not wait for ever."""
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.05)


def log_has(shell: Shell, kind: str) -> bool:
    return kind in shell.run("runs", "logs", "--json").stdout


def test_version_and_help(shell: Shell) -> None:
    assert shell.run("--version").stdout.strip()[0].isdigit()
    assert "doctor" in shell.run("--help").stdout
