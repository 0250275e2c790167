"""The commands that work on a run: run, chat, resume, answer."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

from handloom import config, wiring
from handloom.cli import codes
from handloom.cli.ids import MANY, find
from handloom.errors import ConfigError
from handloom.events import Event, PlanMade, QuestionAsked, RunStarted, StepEnded, encode
from handloom.journal import Store
from handloom.messages import ImagePart, Json, is_object
from handloom.redaction import LogFilter, Redactor
from handloom.runs import RunResult
from handloom.state import Question
from handloom.tools.results import clean
from handloom.views.console import LiveView, PlainView
from handloom.wiring import Approval, Given, Session, Wishes

Opener = Callable[[], AbstractAsyncContextManager[Session]]
IMAGES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif"}


@dataclass(frozen=True, kw_only=True)
class Order:
    """The options of a command that works."""

    model: str = ""
    agent: str = ""
    limits: Mapping[str, float | None] = field(default_factory=dict[str, "float | None"])
    as_json: bool = False
    out: Path | None = None
    schema: Path | None = None
    workspace: Path | None = None
    images: tuple[Path, ...] = ()
    approval: Approval = ""

    def __post_init__(self) -> None:
        if self.out is not None and (self.out.is_dir() or not self.out.absolute().parent.is_dir()):
            raise ConfigError(f"-o {self.out}: that is no file in a folder that exists")

    def wishes(self) -> Wishes:
        return Wishes(
            agent=self.agent, model=self.model, output=_schema(self.schema) if self.schema else None, limits=self.limits
        )

    def folder(self) -> Path:
        folder = (self.workspace or Path.cwd()).resolve()
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no folder to work in")
        return folder


def limits(turns: int | None, tokens: int | None, cost: float | None, timeout: str | None) -> dict[str, float | None]:
    """The limits of the command line by their names in a run."""
    return {"turns": turns, "tokens": tokens, "cost": cost, "seconds": config.seconds(timeout)}


def approval(*, yes: bool, ask: bool, deny: bool) -> Approval:
    """What the three options say together. Raises: ConfigError for more than one."""
    given: dict[Approval, bool] = {"yes": yes, "ask": ask, "deny": deny}
    chosen: list[Approval] = [name for name, is_set in given.items() if is_set]
    if len(chosen) > 1:
        raise ConfigError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    return chosen[0] if chosen else ""


def read_task(text: str) -> str:
    """The task as valid text; `-` is standard input. Raises: ConfigError when it is empty."""
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    text = _valid(text)
    if not text:
        raise ConfigError("the task is empty; say what to do")
    return text


def _valid(text: str) -> str:
    """What came from the shell or a pipe as text that can be saved, whatever its bytes were."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").strip()


def run(task: str, order: Order, *, go_on: bool) -> int:
    """A new run, or the next task in the last conversation of the folder. The exit code says how it ended."""
    loaded = loaded_for(order.folder())
    images = tuple(_image(path) for path in order.images)
    last = _last_conversation(loaded, order.folder()) if go_on else ""
    desk = Desk(order)
    given = desk.given(images)
    if last:
        return desk.work(lambda: wiring.reopen(loaded, last, order.wishes(), given, task=task))
    return desk.work(lambda: wiring.begin(loaded, task, order.wishes(), given, workspace=order.folder()))


def resume(run_id: str, order: Order, *, answer: str | None = None) -> int:
    """Go on with a run; without an id with the newest that has not ended."""
    loaded, run_id = known_run(order, run_id)
    desk = Desk(order)
    return desk.work(lambda: wiring.reopen(loaded, run_id, order.wishes(), desk.given(), answer=answer))


def chat(order: Order) -> int:
    """One conversation, a task a line; ends at an empty line or the end of the input."""
    loaded = loaded_for(order.folder())
    run_id, code = "", codes.SUCCESS
    while task := _line():
        desk = Desk(order)
        code = desk.work(_next_task(loaded, order, desk, task, run_id))
        run_id = desk.run_id or run_id
    return code


def _next_task(loaded: config.Loaded, order: Order, desk: "Desk", task: str, run_id: str) -> Opener:
    if run_id:
        return lambda: wiring.reopen(loaded, run_id, order.wishes(), desk.given(), task=task)
    return lambda: wiring.begin(loaded, task, order.wishes(), desk.given(), workspace=order.folder())


class Desk:
    """Where a person watches one run: the view, the questions, the signals, and the answer at the end."""

    def __init__(self, order: Order) -> None:
        from rich.console import Console

        self.order = order
        self.run_id = ""
        self._console: Console = Console(stderr=True)
        self._view = LiveView(self._console) if self._console.is_terminal else PlainView(self._console)
        self._is_attended = self._console.is_terminal and sys.stdin.isatty()
        self._is_flow = False
        self._terminated = False
        self._shown = -1

    def given(self, images: tuple[ImagePart, ...] = ()) -> Given:
        """What this desk brings to a run. It asks on the terminal, where there is one; elsewhere a question suspends the run."""
        asker = self._ask if self._is_attended else None
        return Given(
            images=images,
            asker=asker,
            readers=(self.show,),
            progress=self.progress,
            approval=self.order.approval,
        )

    def show(self, event: Event) -> None:
        self.run_id = event.run
        self._is_flow = self._is_flow or isinstance(event, PlanMade | StepEnded)
        if not (isinstance(event, QuestionAsked) and self._is_attended):
            self._view(event)  # what is asked here is shown once, where it is asked
        if self.order.as_json and event.durable:
            sys.stdout.buffer.write(encode(event) + b"\n")
            sys.stdout.flush()

    def progress(self, done: int, total: int) -> None:
        """Tell, once for each tenth, how far the embedded model is put together."""
        tenth = done * 10 // max(1, total)
        if tenth != self._shown:
            self._shown = tenth
            self._console.print(f"preparing the embedded model, once: {tenth * 10} %", highlight=False)

    def work(self, opened: Opener) -> int:
        """Run to the end of the run or to where it waits; print the answer; the exit code."""
        with self._view:
            try:
                result = asyncio.run(self._work(opened))
            except asyncio.CancelledError:
                self._say(f"interrupted; `handloom resume {self.run_id}` goes on" if self.run_id else "interrupted")
                return codes.TERMINATED if self._terminated else codes.INTERRUPTED
        return self._report(result)

    async def _work(self, opened: Opener) -> RunResult:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - inside asyncio.run there is one
        loop.add_signal_handler(signal.SIGINT, task.cancel)
        loop.add_signal_handler(signal.SIGTERM, self._terminate, task)
        async with opened() as session:
            redact_logs(session.run.safety.redactor)
            loop.add_signal_handler(signal.SIGINT, self._interrupt, session, task)
            return await session.complete()

    def _interrupt(self, session: Session, task: "asyncio.Task[RunResult]") -> None:
        """Once: stop at the next safe point. Twice: at once."""
        if session.run.cancelled:
            task.cancel()
            return
        self._say("stopping at the next safe point; Ctrl-C again stops at once")
        session.run.cancel()

    def _terminate(self, task: "asyncio.Task[RunResult]") -> None:
        self._terminated = True
        task.cancel()

    async def _ask(self, question: Question) -> str | None:
        with self._view.paused():
            self._console.print(f"\n{clean(question.question)}", markup=False, highlight=False, style="bold")
            if question.options:
                self._console.print(f"[{clean(' / '.join(question.options))}]", markup=False, highlight=False)
            self._console.print("(an empty line leaves it for later) > ", end="", markup=False, highlight=False)
            answer = (await _terminal_line()).strip()
            if answer == "edit" and answer in question.options:
                from handloom.cli import plan

                return await plan.edited(question)
            return answer or None

    def _report(self, result: RunResult) -> int:
        code = codes.code_of_result(result, terminated=self._terminated)
        if result.status == "suspended":
            self._say(result.reason)
        elif result.reason:
            self._say(f"failed: {result.reason}")
        if self._is_flow:
            from handloom.wiring.flows import FlowResult

            if isinstance(result, FlowResult):
                self._say(f"\n{result.report.text()}")
        for path in result.artifacts:
            self._say(f"file: {path}")
        if result.answer and not self.order.as_json:
            print(clean(result.answer))
        if self.order.out is not None and result.answer:
            try:
                self.order.out.write_text(result.answer + "\n", encoding="utf-8")
            except OSError as error:
                raise ConfigError(
                    f"{self.order.out} cannot be written ({error.strerror}); `handloom runs show {result.run}` has the answer"
                ) from None
        return code

    def _say(self, text: str) -> None:
        self._console.print(clean(text), markup=False, highlight=False, soft_wrap=True)


def redact_logs(redactor: Redactor) -> None:
    """Take known secrets, and what has the shape of a key, out of all that is logged from here on."""
    for handler in (*logging.getLogger().handlers, logging.lastResort):
        if handler is not None:
            handler.addFilter(LogFilter(redactor))


async def _terminal_line() -> str:
    """A line from the terminal, without a thread that could not be stopped."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(sys.stdin)
        ready.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, read)
    try:
        return await ready
    finally:
        loop.remove_reader(sys.stdin)


def _line() -> str:
    if sys.stdin.isatty():
        print("> ", end="", file=sys.stderr, flush=True)
    return _valid(sys.stdin.readline())


def loaded_for(folder: Path) -> config.Loaded:
    loaded = config.load(folder=folder)
    if loaded.untrusted is not None:
        print(f"handloom: {loaded.untrusted} is not used, `handloom config trust` allows it", file=sys.stderr)
    return loaded


def _last_conversation(loaded: config.Loaded, folder: Path) -> str:
    with closing(wiring.open_store(loaded)) as store:
        for summary in store.recent(MANY):
            if summary.workspace == str(folder) and not _is_of_flow(store, summary.id):
                return summary.id
    raise ConfigError(f"there is no earlier conversation in {folder}; run without -c")


def _is_of_flow(store: Store, run_id: str) -> bool:
    """Whether the run carries out a flow or makes a plan, and so is no conversation."""
    from handloom.wiring.flows import FLOW

    events = store.read(run_id)
    return bool(events) and isinstance(events[0], RunStarted) and FLOW in events[0].settings


def known_run(order: Order, run_id: str) -> tuple[config.Loaded, str]:
    """The run that is named, or the newest that can go on, with the settings of its workspace."""
    loaded = config.load(folder=order.folder())
    with closing(wiring.open_store(loaded)) as store:
        runs = {summary.id: summary for summary in store.recent(MANY)}
        if run_id:
            run_id = find(store, run_id)
        else:
            waiting = (each.id for each in runs.values() if each.status in ("suspended", "running"))
            run_id = next((each for each in waiting if not store.is_open(each)), "")
    if not run_id:
        raise ConfigError("no run waits to go on; `handloom runs list` shows them all")
    return loaded_for(Path(runs[run_id].workspace)) if run_id in runs else loaded, run_id


def _schema(path: Path) -> Json:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from None
    if not is_object(found):
        raise ConfigError(f"{path} must hold a JSON Schema, which is a JSON object")
    return found


def _image(path: Path) -> ImagePart:
    import base64

    if path.suffix.lower() not in IMAGES:
        raise ConfigError(f"{path} is no image that models take ({', '.join(IMAGES)})")
    try:
        return ImagePart(data=base64.b64encode(path.read_bytes()).decode(), mime=IMAGES[path.suffix.lower()])
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
