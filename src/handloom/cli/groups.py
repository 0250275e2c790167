"""The commands in groups: `flow`, `policy`, `runs`, `model` and `config`."""

from pathlib import Path
from typing import Annotated

import typer

from handloom.cli.options import AsJson, Ask, Deny, MaxCost, MaxTokens, Model, Out, Timeout, Workspace, Yes

runs_app = typer.Typer(no_args_is_help=True, help="Look at earlier runs, answer their questions, export them.")
model_app = typer.Typer(no_args_is_help=True, help="See which models there are, and find out what one can do.")
config_app = typer.Typer(no_args_is_help=True, help="See and check the settings.")
flow_app = typer.Typer(no_args_is_help=True, help="Carry out flows: files of steps that depend on each other.")
policy_app = typer.Typer(no_args_is_help=True, help="See what tools may do, and why.")

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
    from handloom.cli import flow, orders

    limits = orders.limits(None, max_tokens, max_cost, timeout)
    approval = orders.approval(yes=yes, ask=ask, deny=deny)
    order = orders.Order(model=model, limits=limits, as_json=as_json, out=out, workspace=workspace, approval=approval)
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
    from handloom.cli import orders, work

    raise typer.Exit(
        work.resume(
            run_id,
            orders.Order(as_json=as_json, approval=orders.approval(yes=yes, ask=ask, deny=deny)),
            answer=orders.read_task(answer),
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


GROUPS = {"policy": policy_app, "flow": flow_app, "runs": runs_app, "model": model_app, "config": config_app}
