"""Hub: a GGUF file from a Hugging Face hub, through the hub's own client (extra `huggingface`)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from handloom.errors import ConfigError, ModelUnavailableError


def download(reference: str, cache: Path, progress: Callable[[int, int], None] | None = None) -> Path:
    """The file of `ORG/REPO/FILE.gguf`, from `cache/hub` or else from the hub named by `HF_ENDPOINT`.

    Raises: ConfigError when the reference is wrong or access is not granted, ModelUnavailableError when the hub cannot be reached.
    """
    repo, filename = _parse(reference)
    try:
        from huggingface_hub import errors, hf_hub_download  # pyright: ignore[reportUnknownVariableType]  # one of its types is a bare dict
    except ImportError:
        raise ConfigError(
            f'local:hf:{reference} needs the hub\'s client. Install it with `pip install "handloom[huggingface]"`'
        ) from None
    endpoint = os.environ.get("HF_ENDPOINT") or None
    place = f"{repo} on {endpoint or 'huggingface.co'}"
    try:
        return Path(
            hf_hub_download(repo, filename, cache_dir=cache / "hub", endpoint=endpoint, tqdm_class=_bar(progress))
        )
    except errors.GatedRepoError as error:
        raise ConfigError(
            f"{place} asks for consent: accept its terms on its page, and set HF_TOKEN to a token of that account"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ConfigError(f"there is no {place}, or it is private; check the spelling, or set HF_TOKEN") from error
    except (errors.RemoteEntryNotFoundError, errors.RevisionNotFoundError) as error:
        raise ConfigError(f"there is no file {filename} in {place}; its page lists the files") from error
    except errors.HFValidationError as error:
        raise ConfigError(f"local:hf:{reference} does not name a file of a hub: {error}") from error
    except (errors.EntryNotFoundError, OSError) as error:
        raise ModelUnavailableError(
            f"{filename} of {place} is not in the cache and could not be downloaded: {_root(error)}. Check the network, or set HF_ENDPOINT to a mirror"
        ) from error


def _parse(reference: str) -> tuple[str, str]:
    match reference.split("/", 2):
        case [organisation, repo, filename] if organisation and repo and filename.endswith(".gguf"):
            return f"{organisation}/{repo}", filename
        case _:
            raise ConfigError(f"local:hf:{reference} should be local:hf:ORG/REPO/FILE.gguf")


def _root(error: BaseException) -> BaseException:
    """The first cause, which says more than the client's own summary."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _bar(progress: Callable[[int, int], None] | None) -> Any:
    """What the client takes for a progress bar: it prints nothing, and reports to `progress`."""

    class Bar:
        def __init__(self, *, total: float | None = None, initial: float = 0, **_: Any) -> None:
            self.n = initial
            self.total = total

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, n: float = 1) -> None:
            self.n += n
            if progress:
                progress(int(self.n), int(self.total or 0))

        def __getattr__(self, name: str) -> Callable[..., None]:
            return _ignore  # the client's other calls only change how a bar looks

    return Bar


def _ignore(*_: object, **__: object) -> None:
    pass
