"""Desk: where a person watches one run: the view, the questions, the signals, and the answer at the end."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from handloom.cli import codes
from handloom.cli.orders import Order
from handloom.errors import ConfigError
from handloom.events import Event, PlanMade, QuestionAsked, StepEnded, encode
from handloom.messages import ImagePart
from handloom.redaction import LogFilter, Redactor
from handloom.runs import RunResult
from handloom.state import Question
from handloom.tools.results import clean
from handloom.views.console import LiveView, PlainView
from handloom.wiring import Given, Session

Opener = Callable[[], AbstractAsyncContextManager[Session]]


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
                from handloom.cli.editing import edited

                return await edited(question)
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
