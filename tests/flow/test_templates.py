"""Templates: filled once, strictly, within bounds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import TemplateError
from handloom.flow import templates
from handloom.flow.shared import share
from handloom.flow.templates import fill, fill_all, holds

VALUES = {
    "inputs": {"names": ["a", "b"], "产品": "茶", "n": 3, "items": [1], "flag": False, "nothing": None},
    "steps": {"研究": {"output": {"价格": "12 元"}}, "evil": {"output": "{{ inputs.n }}{% for x in y %}{# #}"}},
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no template", "no template"),
        ("{{ inputs.n }} of {{ inputs.names }}", '3 of ["a", "b"]'),
        ("{{ steps.研究.output.价格 }}", "12 元"),
        ("{{ steps['研究'].output }}", '{"价格": "12 元"}'),
        ("{{ steps.研究.output | tojson }}", '{"价格": "12 元"}'),
        ("{{ inputs['产品'] }}{{ inputs.产品 }}", "茶茶"),
        ("{{ inputs.items }}", "[1]"),  # an input of this name, not a method
        ("{% for name in inputs.names %}{{ loop.index }}{{ name }}{{ ', ' if not loop.last }}{% endfor %}", "1a, 2b"),
        ("{% if inputs.flag %}yes{% else %}no{% endif %}", "no"),
        ("{{ inputs.flag }}{{ inputs.nothing }}", "false"),
        ("{{ inputs.names | join(' and ') | upper }}", "A AND B"),
        ("{{ 'n' ~ inputs.n }}", "n3"),
        ("{% raw %}{{ as it is }}{% endraw %}", "{{ as it is }}"),
        ("{{ steps.evil.output }}", "{{ inputs.n }}{% for x in y %}{# #}"),
        ("{ } {x} }}", "{ } {x} }}"),
    ],
)
def test_a_template_is_filled(text: str, filled: str) -> None:
    assert fill(text, VALUES) == filled


@given(st.text())
def test_a_value_is_never_looked_at_for_templates(value: str) -> None:
    value = "{{ inputs.n }}" + value + "{% raw %}"
    assert fill("<{{ v }}>", {"v": value}) == f"<{value}>"
    assert fill_all({"k": ["{{ v }}"]}, {"v": value}) == {"k": [value]}


def test_a_template_that_is_one_expression_gives_the_value_itself() -> None:
    given = {
        "a": "{{ inputs.names }}",
        "b": [" {{ inputs.n }}"],
        "c": "{{ inputs.n + 1 }}",
        "d": 5,
        "e": "{{ steps['研究'].output }}",
    }
    assert fill_all(given, VALUES) == {"a": ["a", "b"], "b": [" 3"], "c": 4, "d": 5, "e": {"价格": "12 元"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ inputs.nix }}", "nix"),
        ("{{ nix }}", "'nix' is undefined"),
        ("{{ inputs.nix | tojson }}", "nix"),
        ("{{ inputs.n / 0 }}", "ZeroDivisionError"),
        ("{{ inputs", "line 1"),
        ("{% include 'x' %}", "they take if and for"),
        ("{% macro x() %}{% endmacro %}", "they take if and for"),
        ("{% set x = 1 %}", "they take if and for"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ inputs.names.append(1) }}", "unsafe"),
        ("{{ 'x'.format(1) }}", "not safely callable"),
        ("{{ inputs.values }}", "no key 'values'"),
        ("all: {{ inputs.names.count }}", "called with count()"),
        ("{{ inputs.values | tojson }}", "no key 'values'"),
        ("{{ [inputs.values] }}", "no key 'values'"),
    ],
)
def test_what_cannot_be_filled_is_told(text: str, said: str) -> None:
    for filled in (fill, fill_all):
        with pytest.raises(TemplateError) as error:
            filled(text, VALUES)
        assert said in str(error.value)


@pytest.mark.parametrize("value", [{"title": "x"}, ["x"]])
@pytest.mark.parametrize("text", ["{{ v.titel }}", "{{ v.pop() }}", "{{ v + 1 }}"])
def test_what_is_told_of_a_shared_value_is_what_is_told_of_any(text: str, value: object) -> None:
    told: list[str] = []
    for one in (value, share(value)):
        with pytest.raises(TemplateError) as error:
            fill(text, {"v": one})
        told.append(str(error.value))
    assert told[0] == told[1]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "{{ 'a' * 10 ** 9 }}",
        "{{ 'a' * 1000000000 }}",
        "{{ [1] * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'a'.center(1000000000) }}",
        "{{ '%01000000000d' % 1 }}",
        "{{ 'a' | center(1000000000) }}",
        "{{ 'a' | indent(1000000000) }}",
        "{{ range(1000000000) | list }}",
        "{{ lipsum(1000000) }}",
        "{{ long | replace('x', long) }}",
        "{{ long | join(long) }}",
        "{{ long.replace('x', long) }}",
        "{{ (range(6000)|join).replace('', range(6000)|join) }}",
        "{{ long.replace(new=long, old='') }}",
        "{{ long.encode().replace('x'.encode(), long.encode()) }}",
        "{{ long.join(long) }}",
        "{{ range(99999) | map('replace', '', long) | list }}",
        "{{ [long, long] | join(long * 1) }}{{ range(99999) | map('string') | join(long) }}",
        "{{ long.splitlines() | first | indent(5000000, first=true) }}",
        "{{ 'a' | indent(long | join(long)) }}",
        "{{ 'a' | tojson(indent=1000000000) | indent(1000000000, true) }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ long }}{% endfor %}",
    ],
)
def test_a_template_cannot_run_for_ever_or_fill_the_memory(text: str) -> None:
    with pytest.raises(TemplateError):
        fill(text, {"long": "x" * 100_000})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{ long | truncate(2000) | length }}", "2000"),
        ("{{ inputs.large | replace('5', '6') }}", "12600"),
        ("{{ [12500, 3] | join(', ') }}", "12500, 3"),
        ("{{ inputs.large | indent }}", "12500"),
        ("{{ 'a-b-c'.replace('-', '+', 1) }} {{ 'a-b-c' | replace('-', '+', 1) }}", "a+b-c a+b-c"),
        ("{{ ', '.join(inputs.names) }} {{ inputs.names | join('/') }}", "a, b a/b"),
        ("{{ [{'n': 1}, {'n': 2}] | join('+', attribute='n') }}", "1+2"),
        ("{{ long | indent(2, first=true) | length }}", "100002"),
    ],
)
def test_what_makes_no_text_too_long_is_filled_in(text: str, filled: str) -> None:
    assert fill(text, {"inputs": {"large": 12_500, "names": ["a", "b"]}, "long": "x" * 100_000}) == filled


def test_a_value_of_a_megabyte_is_filled_in() -> None:
    value = "好" * 1_000_000
    assert fill("<{{ v }}>", {"v": value}) == f"<{value}>"
    assert json.loads(fill("{{ v | tojson }}", {"v": value})) == value


def test_conditions_are_expressions_with_or_without_braces() -> None:
    assert holds("inputs.n > 2 and '茶' in inputs['产品']", VALUES)
    assert holds("{{ inputs.names | length == 2 }}", VALUES)
    assert not holds("inputs.flag", VALUES)
    with pytest.raises(TemplateError):
        holds("inputs.n > nix", VALUES)


def test_what_a_template_reads_is_known() -> None:
    found = templates.template(
        "{{ steps['a b'].output }}{{ steps.c.status }}{{ inputs.d }}{{ step_e_output }}{{ steps[x] }}"
    ).reads
    assert found.steps == {"a b", "c"}
    assert found.inputs == {"d"}
    assert found.names == {"steps", "inputs", "step_e_output", "x"}
    assert found.unclear == ("steps",)
    assert not found.all_steps


@pytest.mark.parametrize(
    "text",
    [
        "{{ steps.a.output }} {{ steps | tojson }}",
        "{% for name in steps %}{{ name }}{{ steps.a.output }}{% endfor %}",
        "{{ 'x' ~ steps ~ steps['a'].output }}",
    ],
)
def test_a_template_that_uses_all_steps_at_once_reads_them_all(text: str) -> None:
    found = templates.template(text).reads
    assert found.all_steps
    assert found.steps == {"a"}
