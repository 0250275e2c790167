"""PromptTemplate: an agent's system prompt and next-step prompt, with declared placeholders."""

import string
from collections.abc import Mapping
from dataclasses import dataclass

from handloom.errors import PromptError


@dataclass(frozen=True, kw_only=True)
class PromptTemplate:
    """Two texts with `{name}` placeholders. An empty `next_step` adds no message.

    Raises: PromptError when a placeholder is not among `variables`, or is more than a name.
    """

    system: str
    next_step: str = ""
    variables: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        undeclared = (placeholders(self.system) | placeholders(self.next_step)) - self.variables
        if undeclared:
            raise PromptError(
                f"the prompt uses {', '.join(sorted(undeclared))}, which it does not declare in `variables`"
            )


def placeholders(template: str) -> set[str]:
    """The names in a template. Raises: PromptError for `{}`, `{a.b}`, `{a[0]}`, `{a!r}`, `{a:>9}` and unbalanced braces."""
    names: set[str] = set()
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise PromptError(f"bad template ({error}); write {{{{ and }}}} for plain braces") from None
    for _, name, spec, conversion in pieces:
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise PromptError(f"placeholder {{{name}}} must be a plain name; write {{{{ and }}}} for plain braces")
        names.add(name)
    return names


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with its placeholders filled, in one pass: braces inside values stay as they are.

    Raises: PromptError when a value is missing.
    """
    names = placeholders(template)
    if missing := names - set(values):
        raise PromptError(f"the prompt needs a value for {', '.join(sorted(missing))}")
    return template.format_map({name: values[name] for name in names})
