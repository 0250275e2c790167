"""The commands and their options."""

import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from handloom.errors import ConfigError, HandloomError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A general agent and a workflow engine for your own machine.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
runs_app = typer.Typer(no_args_is_help=True, help="Look at earlier runs, answer their questions, export them.")
model_app = typer.Typer(no_args_is_help=True, help="See which models there are, and find out what one can do.")
config_app = typer.Typer(no_args_is_help=True, help="See and check the settings.")
flow_app = typer.Typer(no_args_is_help=True, help="Carry out flows: files of steps that depend on each other.")
policy_app = typer.Typer(no_args_is_help=True, help="See what tools may do, and why.")
app.add_typer(policy_app, name="policy")
app.add_typer(flow_app, name="flow")
app.add_typer(runs_app, name="runs")
app.add_typer(model_app, name="model")
app.add_typer(config_app, name="config")

Task = Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")]
Model = Annotated[
    str,
    typer.Option(
        "-m", "--model", help="A model's name, a name of [llm.NAME], local, local:FILE.gguf or local:hf:REPO/FILE."
    ),
]
AgentName = Annotated[str, typer.Option("--agent", help="The agent: manus, toolcall, swe, browser, data, planning.")]
MaxTurns = Annotated[int | None, typer.Option("--max-turns", min=1, help="Stop after so many turns.")]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", min=1, help="Stop after so many tokens, prompt and completion together.")
]
MaxCost = Annotated[float | None, typer.Option("--max-cost", min=0, help="Stop at this cost in USD.")]
Timeout = Annotated[str | None, typer.Option("--timeout", help="Stop after this time: 90s, 10m, 2h.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the events as JSON lines instead of the answer.")]
Out = Annotated[Path | None, typer.Option("-o", "--output", help="Write the answer to this file too.")]
Schema = Annotated[Path | None, typer.Option("--schema", help="A JSON Schema file that the answer must fit.")]
Workspace = Annotated[
    Path | None, typer.Option("-C", "--workspace", help="The folder to work in; this one by default.")
]
Images = Annotated[list[Path] | None, typer.Option("--image", help="An image to show with the task; can be repeated.")]

NoCache = Annotated[bool, typer.Option("--no-cache", help="Make a new plan, also where one for this goal was kept.")]
Yes = Annotated[bool, typer.Option("--yes", help="Allow what would be asked; what a rule denies stays denied.")]
Ask = Annotated[bool, typer.Option("--ask", help="Ask before every call with an effect.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny what would be asked.")]


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
    from handloom.cli import work

    limits = work.limits(max_turns, max_tokens, max_cost, timeout)
    order = work.Order(
        model=model,
        agent=agent,
        limits=limits,
        as_json=as_json,
        out=out,
        schema=schema,
        workspace=workspace,
        images=tuple(image or ()),
        approval=work.approval(yes=yes, ask=ask, deny=deny),
    )
    if plan or no_cache:
        from handloom.cli import plan as plans

        if not plan or go_on:
            raise ConfigError("--no-cache goes with --plan" if not plan else "--plan starts anew, so it excludes -c")
        raise typer.Exit(plans.carry_out(work.read_task(task), order, keep=not no_cache))
    raise typer.Exit(work.run(work.read_task(task), order, go_on=go_on))


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
    from handloom.cli import plan, work

    limits = work.limits(None, max_tokens, max_cost, timeout)
    order = work.Order(model=model, limits=limits, as_json=as_json, out=out, workspace=workspace)
    raise typer.Exit(plan.show(work.read_task(goal), order, keep=not no_cache, explain=explain))


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
    from handloom.cli import work

    raise typer.Exit(
        work.chat(
            work.Order(
                model=model, agent=agent, workspace=workspace, approval=work.approval(yes=yes, ask=ask, deny=deny)
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
    from handloom.cli import work

    order = work.Order(
        model=model,
        limits=work.limits(max_turns, max_tokens, max_cost, timeout),
        as_json=as_json,
        out=out,
        approval=work.approval(yes=yes, ask=ask, deny=deny),
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


FlowFile = Annotated[Path, typer.Argument(metavar="FILE", help="A flow file, YAML or JSON.")]


@flow_app.command("run")
def flow_run(
    file: FlowFile,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "-i",
            "--input",
            metavar="NAME=VALUE",
            help="A value of an input; text as it is, other types as JSON; can be repeated.",
        ),
    ] = None,
    model: Model = "",
    max_tokens: MaxTokens = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
    out: Out = None,
    workspace: Workspace = None,
    yes: Yes = False,
    ask: Ask = False,
    deny: Deny = False,
) -> None:
    """Carry out a flow and print its outputs."""
    from handloom.cli import flow, work

    limits = work.limits(None, max_tokens, max_cost, timeout)
    approval = work.approval(yes=yes, ask=ask, deny=deny)
    order = work.Order(model=model, limits=limits, as_json=as_json, out=out, workspace=workspace, approval=approval)
    raise typer.Exit(flow.run(file, given or [], order))


@flow_app.command("check")
def flow_check(file: FlowFile) -> None:
    """Find the mistakes of a flow file, each with its line, without running it."""
    from handloom.cli import flow

    raise typer.Exit(flow.check(file))


@flow_app.command("graph")
def flow_graph(
    file: FlowFile, form: Annotated[str, typer.Option("--format", help="mermaid, json or text.")] = "mermaid"
) -> None:
    """Draw a flow."""
    from handloom.cli import flow

    raise typer.Exit(flow.graph(file, form))


@flow_app.command("schema")
def flow_schema() -> None:
    """The JSON Schema of flow files, for editors."""
    from handloom.cli import flow

    raise typer.Exit(flow.schema())


@policy_app.command("check")
def policy_check() -> None:
    """Read the rules with their examples, and list them as they hold in this folder."""
    from handloom.cli import policy

    policy.check()


@policy_app.command("explain")
def policy_explain(command: Annotated[str, typer.Argument(help="A shell command, in quotes.")]) -> None:
    """What would happen to a shell command, and which rule says so; nothing is run."""
    from handloom.cli import policy

    raise typer.Exit(policy.explain(command))


@runs_app.command("list")
def runs_list(
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many.")] = 20, as_json: AsJson = False
) -> None:
    """The newest runs first."""
    from handloom.cli import history

    history.listing(limit, as_json=as_json)


RunId = Annotated[str, typer.Argument(metavar="[RUN]", help="The run; the last one by default.")]


@runs_app.command("show")
def runs_show(run_id: RunId = "") -> None:
    """How a run stands: its turns, calls, tokens, questions and answer."""
    from handloom.cli import history

    history.show(run_id)


@runs_app.command("stats")
def runs_stats(
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Over how many of the newest runs.")] = 100,
    flow: Annotated[str, typer.Option("--flow", metavar="NAME", help="Over runs of this flow alone.")] = "",
    as_json: AsJson = False,
) -> None:
    """How runs went: how many succeeded, how long they took, what they cost, which steps and tools failed."""
    from handloom.cli import stats

    stats.show(limit, flow=flow, as_json=as_json)


@runs_app.command("logs")
def runs_logs(
    run_id: RunId = "",
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the run stops.")] = False,
    as_json: AsJson = False,
) -> None:
    """The events of a run, a line each."""
    from handloom.cli import history

    history.logs(run_id, follow=follow, as_json=as_json)


@runs_app.command("answer")
def runs_answer(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    answer: Annotated[str, typer.Argument(help="The answer; - reads it from standard input.")],
    as_json: AsJson = False,
    yes: Yes = False,
    ask: Ask = False,
    deny: Deny = False,
) -> None:
    """Answer the open question of a run, and go on with it."""
    from handloom.cli import work

    raise typer.Exit(
        work.resume(
            run_id,
            work.Order(as_json=as_json, approval=work.approval(yes=yes, ask=ask, deny=deny)),
            answer=work.read_task(answer),
        )
    )


@runs_app.command("diff")
def runs_diff(run_id: RunId = "") -> None:
    """What a run changed in its workspace, as a patch."""
    from handloom.cli import states

    states.diff(run_id)


@runs_app.command("restore")
def runs_restore(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    turn: Annotated[
        int | None, typer.Option("--turn", min=1, help="Back to how it was before this turn; the first by default.")
    ] = None,
) -> None:
    """Bring a run's workspace back to an earlier state; how it is now is kept too."""
    from handloom.cli import states

    states.restore(run_id, turn)


@runs_app.command("export")
def runs_export(
    run_id: RunId = "",
    form: Annotated[str, typer.Option("--format", help="md or json.")] = "md",
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write it to this file instead.")] = None,
) -> None:
    """A whole run as one document."""
    from handloom.cli import history

    history.export(run_id, form, out)


@model_app.command("list")
def model_list() -> None:
    """The models that the settings name, and the embedded one."""
    from handloom.cli import models

    models.listing()


@model_app.command("probe")
def model_probe(model: Annotated[str, typer.Argument(metavar="[MODEL]", help="As with run -m.")] = "") -> None:
    """Ask a model a handful of questions to find out what it can do, and remember it."""
    from handloom.cli import models

    raise typer.Exit(models.probe(model))


@config_app.command("show")
def config_show() -> None:
    """The settings that hold here, and where they come from."""
    from handloom.cli import settings

    settings.show()


@config_app.command("path")
def config_path() -> None:
    """Where the settings, the runs and the cache are."""
    from handloom.cli import settings

    settings.paths()


@config_app.command("schema")
def config_schema() -> None:
    """The JSON Schema of the settings file."""
    from handloom.cli import settings

    settings.schema()


@config_app.command("trust")
def config_trust() -> None:
    """Use this folder's own settings (.handloom/config.toml) from now on."""
    from handloom.cli import settings

    settings.trust()


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
