"""The commands."""

import io
import sys
from typing import Annotated

import typer

from handloom.cli.groups import GROUPS
from handloom.cli.options import (
    AgentName,
    AsJson,
    Ask,
    Deny,
    Images,
    MaxCost,
    MaxTokens,
    MaxTurns,
    Model,
    NoCache,
    Out,
    Schema,
    Task,
    Timeout,
    Workspace,
    Yes,
)
from handloom.errors import ConfigError, HandloomError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A general agent and a workflow engine for your own machine.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, group in GROUPS.items():
    app.add_typer(group, name=name)


@app.command()
def run(
    task: Task,
    go_on: Annotated[
        bool, typer.Option("-c", "--continue", help="Go on in the last conversation of this folder.")
    ] = False,
    model: Model = "",
    agent: AgentName = "",
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
    out: Out = None,
    schema: Schema = None,
    workspace: Workspace = None,
    image: Images = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Plan first, and carry the plan out once you have approved it; --yes approves."),
    ] = False,
    no_cache: NoCache = False,
    yes: Yes = False,
    ask: Ask = False,
    deny: Deny = False,
) -> None:
    """Do a task and print the answer."""
    from handloom.cli import orders, work

    limits = orders.limits(max_turns, max_tokens, max_cost, timeout)
    order = orders.Order(
        model=model,
        agent=agent,
        limits=limits,
        as_json=as_json,
        out=out,
        schema=schema,
        workspace=workspace,
        images=tuple(image or ()),
        approval=orders.approval(yes=yes, ask=ask, deny=deny),
    )
    if plan or no_cache:
        from handloom.cli import plan as plans

        if not plan or go_on:
            raise ConfigError("--no-cache goes with --plan" if not plan else "--plan starts anew, so it excludes -c")
        raise typer.Exit(plans.carry_out(orders.read_task(task), order, keep=not no_cache))
    raise typer.Exit(work.run(orders.read_task(task), order, go_on=go_on))


@app.command("plan")
def plan_goal(
    goal: Annotated[str, typer.Argument(help="What to reach; - reads it from standard input.")],
    model: Model = "",
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    no_cache: NoCache = False,
    explain: Annotated[bool, typer.Option("--explain", help="Tell on standard error how the plan came about.")] = False,
    as_json: AsJson = False,
    out: Out = None,
    workspace: Workspace = None,
) -> None:
    """Plan a goal and print the plan as a flow file, without carrying it out."""
    from handloom.cli import orders, plan

    limits = orders.limits(None, max_tokens, max_cost, timeout)
    order = orders.Order(model=model, limits=limits, as_json=as_json, out=out, workspace=workspace)
    raise typer.Exit(plan.show(orders.read_task(goal), order, keep=not no_cache, explain=explain))


@app.command()
def chat(
    model: Model = "",
    agent: AgentName = "",
    workspace: Workspace = None,
    yes: Yes = False,
    ask: Ask = False,
    deny: Deny = False,
) -> None:
    """Talk with an agent; each line is a task in one conversation. An empty line or Ctrl-D ends it."""
    from handloom.cli import orders, work

    raise typer.Exit(
        work.chat(
            orders.Order(
                model=model, agent=agent, workspace=workspace, approval=orders.approval(yes=yes, ask=ask, deny=deny)
            )
        )
    )


@app.command()
def resume(
    run_id: Annotated[
        str, typer.Argument(metavar="[RUN]", help="The run; the last one that can go on by default.")
    ] = "",
    model: Model = "",
    max_turns: MaxTurns = None,
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
    out: Out = None,
    again: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="STEP", help="In a flow: run this step and all that need it again; can be repeated."
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="In a flow: a new value of an input; can be repeated."),
    ] = None,
    yes: Yes = False,
    ask: Ask = False,
    deny: Deny = False,
) -> None:
    """Go on with a run where it stopped."""
    from handloom.cli import orders, work

    order = orders.Order(
        model=model,
        limits=orders.limits(max_turns, max_tokens, max_cost, timeout),
        as_json=as_json,
        out=out,
        approval=orders.approval(yes=yes, ask=ask, deny=deny),
    )
    if again or values:
        from handloom.cli import flow

        raise typer.Exit(flow.resume(run_id, again or [], values or [], order))
    raise typer.Exit(work.resume(run_id, order))


@app.command()
def doctor() -> None:
    """Check what handloom needs on this machine, and say how to get what is missing."""
    from handloom.cli import doctor as checks

    raise typer.Exit(checks.report())


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        import handloom

        typer.echo(handloom.__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; every expected error becomes one message and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # a file name may hold what the locale cannot show
    try:
        app()
    except HandloomError as error:
        from handloom.cli.codes import code_of

        typer.echo(f"handloom: {error}", err=True)
        sys.exit(code_of(error))
    except KeyboardInterrupt:
        sys.exit(130)
