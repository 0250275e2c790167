"""The options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

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
