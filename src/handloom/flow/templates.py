"""Templates: texts with `{{ }}` that are filled once from what earlier steps have made, and expressions such as those of `if`.

A value is never looked at for templates of its own. A template that is one expression and nothing else (`"{{ inputs.companies }}"`) gives the value itself where a
value is wanted; everywhere else it gives text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from handloom.errors import TemplateError
from handloom.flow import shared
from handloom.messages import is_list, is_object

if TYPE_CHECKING:
    from jinja2 import Template as JinjaTemplate
    from jinja2 import nodes

    from handloom.flow.sandbox import Environment

Values = Mapping[str, Any]
_RESULT = "result"


@dataclass(frozen=True)
class Reads:
    """What a template reads. `steps` and `inputs` are names below those; `names` are all other top-level names.

    `unclear` holds what is read in a way that cannot be checked, such as `steps[x]`. `all_steps` says that it uses all of them at once, as `steps | tojson` does.
    """

    names: frozenset[str]
    steps: frozenset[str] = frozenset()
    inputs: frozenset[str] = frozenset()
    unclear: tuple[str, ...] = ()
    all_steps: bool = False


class Template:
    """A text that was read and can be filled. Raises: TemplateError with the line of the mistake."""

    def __init__(self, text: str, *, expression: bool = False) -> None:
        from jinja2 import TemplateSyntaxError

        self.text = text
        try:
            self._tree = _environment().parse(f"{{{{ {text}\n}}}}" if expression else text)
            _environment().watched(self._tree)
        except TemplateSyntaxError as error:
            raise TemplateError(f"line {error.lineno} of the template: {error.message}") from None
        except RecursionError:
            raise TemplateError("the template is nested too deeply") from None
        if expression and self._expression is None:
            raise TemplateError(f"{text!r} is no expression")

    @cached_property
    def reads(self) -> Reads:
        return _reads(self._tree)

    @cached_property
    def _expression(self) -> "nodes.Expr | None":
        """The one expression that is all of the template."""
        from jinja2 import nodes

        parts = [
            part for node in self._tree.body for part in (node.nodes if isinstance(node, nodes.Output) else [node])
        ]
        only = parts[0] if len(parts) == 1 else None
        return only if isinstance(only, nodes.Expr) and not isinstance(only, nodes.TemplateData) else None

    def fill(self, values: Values) -> str:
        """The text. Raises: TemplateError."""
        from handloom.flow import sandbox

        def whole() -> str:
            pieces: list[str] = []
            size = 0
            for piece in self._program.root_render_func(self._program.new_context(dict(values))):
                size += len(piece)
                sandbox.check_time()
                if size > sandbox.LONGEST:
                    raise TemplateError(f"the text is longer than {sandbox.LONGEST:,} characters")
                pieces.append(piece)
            return "".join(pieces)

        return _guarded(whole, self.text)

    def value(self, values: Values) -> Any:
        """The value of a template that is one expression, else its text. Raises: TemplateError."""
        if self._expression is None:
            return self.fill(values)

        def result() -> Any:
            from jinja2 import Undefined

            context = self._value_program.new_context(dict(values))
            for _ in self._value_program.root_render_func(context):
                pass
            found = context.vars[_RESULT]
            if isinstance(found, Undefined):
                str(found)  # raises, naming what is missing
            return _plain(found)

        return _guarded(result, self.text)

    @cached_property
    def _program(self) -> "JinjaTemplate":
        return _compiled(self._tree)

    @cached_property
    def _value_program(self) -> "JinjaTemplate":
        from jinja2 import nodes

        assert self._expression is not None  # noqa: S101 - asked before
        line = self._expression.lineno
        assign = nodes.Assign(nodes.Name(_RESULT, "store", lineno=line), self._expression, lineno=line)
        tree = nodes.Template([assign], lineno=1)
        tree.set_environment(_environment())
        return _compiled(tree)


@lru_cache(maxsize=2_000)
def template(text: str) -> Template:
    """The template of a text. Raises: TemplateError."""
    return Template(text)


@lru_cache(maxsize=2_000)
def expression(text: str) -> Template:
    """The template of an expression such as that of `if`. Raises: TemplateError."""
    text = text.strip()
    if text.startswith("{{") and text.endswith("}}"):
        text = text[2:-2]
    return Template(text, expression=True)


def fill(text: str, values: Values) -> str:
    """A text with its templates filled."""
    return template(text).fill(values) if _is_template(text) else text


def fill_all(value: Any, values: Values) -> Any:
    """A value with the texts in it filled, on every level; a text that is one expression becomes its value."""
    if isinstance(value, str):
        return template(value).value(values) if _is_template(value) else value
    if is_object(value):
        return {key: fill_all(item, values) for key, item in value.items()}
    return [fill_all(item, values) for item in value] if is_list(value) else value


def holds(text: str, values: Values) -> bool:
    """Whether an expression is true."""
    return bool(expression(text).value(values))


def _is_template(text: str) -> bool:
    return "{" in text


def _guarded(work: Any, text: str) -> Any:
    """Do the work of a template; whatever it raises is the template's mistake."""
    from jinja2 import TemplateError as JinjaError

    from handloom.flow import sandbox

    sandbox.begin()
    try:
        return work()
    except TemplateError:
        raise
    except JinjaError as error:
        raise TemplateError(f"the template {_brief(text)} cannot be filled: {error.message}") from None
    except RecursionError:
        raise TemplateError(f"the template {_brief(text)} is nested too deeply") from None
    except Exception as error:  # noqa: BLE001 - any value can be reckoned with, and any of that can go wrong
        raise TemplateError(f"the template {_brief(text)} cannot be filled: {type(error).__name__}: {error}") from None


def _brief(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 80 else flat[:77] + "...")


@lru_cache(maxsize=1)
def _environment() -> "Environment":
    from handloom.flow.sandbox import Environment

    return Environment()


def _compiled(tree: "nodes.Template") -> "JinjaTemplate":
    environment = _environment()
    code = environment.compile(tree)
    return environment.template_class.from_code(environment, code, dict(environment.globals))


def _plain(value: Any) -> Any:
    """A value as JSON values: views become dicts and lists."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if callable(value):
        from handloom.flow import sandbox

        raise sandbox.no_value(value)
    if shared.is_shared(value):
        return shared.copied(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [_plain(item) for item in value]


def _reads(tree: "nodes.Template") -> Reads:
    from jinja2 import meta, nodes

    names = set(meta.find_undeclared_variables(tree))
    below: dict[str, set[str]] = {"steps": set(), "inputs": set()}
    unclear: list[str] = []
    looked_into: set[int] = set()
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if not isinstance(node.node, nodes.Name) or node.node.name not in below:
            continue
        looked_into.add(id(node.node))
        if isinstance(node, nodes.Getattr):
            below[node.node.name].add(node.attr)
        elif isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            below[node.node.name].add(node.arg.value)
        else:
            unclear.append(node.node.name)
    whole = any(node.name == "steps" and id(node) not in looked_into for node in tree.find_all(nodes.Name))
    return Reads(frozenset(names), frozenset(below["steps"]), frozenset(below["inputs"]), tuple(unclear), whole)


def functions() -> frozenset[str]:
    """The names that every template has."""
    return frozenset(_environment().globals)


def reads(value: Any) -> list[Reads]:
    """What all texts of a value read."""
    if isinstance(value, str):
        return [template(value).reads] if _is_template(value) else []
    if is_object(value):
        return [found for item in value.values() for found in reads(item)]
    return [found for item in value for found in reads(item)] if is_list(value) else []


def as_text(value: Any) -> str:
    """A value as a template shows it."""
    from handloom.flow.sandbox import shown

    return str(shown(value))
