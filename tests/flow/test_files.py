"""Flow files: what is wrong is told with its place and what was meant; what is right comes back from its own text."""

from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import FlowError
from handloom.flow import files, yaml
from handloom.flow.check import Surroundings, check
from handloom.flow.flow import Flow
from handloom.plans import Plan, PlanLimits, Step

EXAMPLE = """
version: 1
name: competitor-report
inputs:
  product: {type: string, required: true}
  companies: {type: array, items: {type: string}, default: [A, B, C]}
defaults: {retry: {max: 2, backoff: 2s}, timeout: 5m}
limits: {max_cost_usd: 2.0, max_parallel: 4, max_tokens: 200000}
steps:
  research:
    agent: manus
    for_each: "{{ inputs.companies }}"
    prompt: "Research {{ item }}: features and prices compared with {{ inputs.product }}."
    tools: [web_search, browser_use]
    output: {type: object, properties: {name: {type: string}, features: {type: array, items: {type: string}}}, required: [name, features]}
  analyze:
    needs: [research]
    prompt: "Compare and name the differences:\\n{{ steps.research.output | tojson }}"
  report:
    needs: [analyze]
    prompt: "Write a Markdown report to report.md from this analysis:\\n{{ steps.analyze.output }}"
    tools: [str_replace_editor]
    artifacts: [report.md]
  check: {needs: [report], run: "test -s report.md"}
  send:
    needs: [check]
    if: "inputs.product != 'secret'"
    approval: {message: "Send report.md?", timeout: 24h, on_timeout: fail}
    tool: send_email
    with: {attach: [report.md]}
outputs: {report: "{{ steps.report.output }}"}
"""
AROUND = Surroundings(
    agents=["manus", "swe"], tools=["web_search", "browser_use", "str_replace_editor", "send_email"], plans=False
)

# Each bad file, and what must be said of it: the place first.
BAD = {
    "no yaml": ("steps: [", "1:9: this is no YAML"),
    "a tab": ("steps:\n\ta: {run: x}", "2:1: this is no YAML"),
    "empty": ("", "the flow is empty"),
    "a list": ("- a\n- b", "1:1: a flow is a mapping"),
    "no steps": ("name: x", "'steps' is missing"),
    "empty steps": ("steps: {}", "1:1: steps: a plan needs at least one step"),
    "steps as a list": ("steps: [{run: x}]", "1:1: steps: must be a valid dict"),
    "a typo at the top": (
        "stepps: {}\nsteps: {a: {run: x}}",
        "1:1: stepps: there is no key 'stepps' here; did you mean 'steps'?",
    ),
    "a typo in a step": (
        "steps:\n  a: {promt: x}",
        "2:7: steps.a.promt: there is no key 'promt' here; did you mean 'prompt'?",
    ),
    "a typo deep inside": (
        "steps:\n  a: {run: x, retry: {maximum: 3}}",
        "2:23: steps.a.retry.maximum: there is no key 'maximum'",
    ),
    "two actions": (
        "steps:\n  a: {run: x, prompt: y}",
        "steps.a: a step does one thing, one of prompt, run, tool, flow, plan; this one has prompt and run",
    ),
    "no action": (
        "steps:\n  a: {needs: []}",
        "steps.a: a step does one thing, one of prompt, run, tool, flow, plan; this one has none",
    ),
    "a key twice": ("steps:\n  a: {run: x}\n  a: {run: y}", "3:3: steps.a: this key stands twice"),
    "a number for a text": ("steps:\n  a: {run: 12}", "2:7: steps.a.run: must be text, and is 12; put it in quotes"),
    "a bad duration": (
        "steps:\n  a: {run: x, timeout: soon}",
        "2:15: steps.a.timeout: 'soon' is no duration; write seconds, or 90s, 5m, 24h",
    ),
    "a bad word": (
        "steps:\n  a: {run: x, on_error: ignore}",
        "2:15: steps.a.on_error: must be 'fail', 'skip', 'continue' or 'replan', and is 'ignore'",
    ),
    "an option of another kind": (
        "steps:\n  a: {run: x, model: gpt}",
        "'model' belongs to a step with prompt or plan, and this one has 'run'",
    ),
    "an unbounded loop": ('steps:\n  a: {run: x, repeat: {until: "true"}}', "2:15: steps.a.repeat: 'max' is missing"),
    "a bad name": ("steps:\n  a/b: {run: x}", "steps.a/b: 'a/b' is no name for a step"),
    "a version of tomorrow": ("version: 2\nsteps: {a: {run: x}}", "1:1: version: must be 1, and is 2"),
    "a circle": (
        "steps:\n  a: {run: x, needs: [c]}\n  b: {run: x, needs: [a]}\n  c: {run: x, needs: [b]}",
        "steps.a.needs: the steps wait for each other: a -> c -> b -> a",
    ),
    "a step that needs itself": (
        "steps:\n  a: {run: x, needs: [a]}",
        "2:23: steps.a.needs[0]: a step cannot need itself",
    ),
    "an unknown step": (
        "steps:\n  fetch: {run: x}\n  b: {run: x, needs: [fecth]}",
        "3:23: steps.b.needs[0]: there is no step 'fecth'; did you mean 'fetch'?",
    ),
    "an undeclared reading": (
        'steps:\n  a: {run: x}\n  b: {prompt: "{{ steps.a.output }}"}',
        "3:7: steps.b.prompt: this reads the step 'a', which is not among its needs; add it to `needs`",
    ),
    "an undeclared reading in a condition": (
        'steps:\n  a: {run: x}\n  b: {run: x, if: "steps.a.output == 1"}',
        "3:15: steps.b.if: this reads the step 'a', which is not among its needs",
    ),
    "an undeclared flat name": (
        'steps:\n  a: {run: x}\n  b: {prompt: "{{ step_a_output }}"}',
        "steps.b.prompt: this reads the step 'a'",
    ),
    "an unknown input": (
        'inputs: {name: {type: string}}\nsteps:\n  a: {prompt: "{{ inputs.nmae }}"}',
        "there is no input 'nmae'; did you mean 'name'?",
    ),
    "an unknown name": ('steps:\n  a: {prompt: "{{ foo }}"}', "steps.a.prompt: there is no 'foo'"),
    "an item without a list": ('steps:\n  a: {prompt: "{{ item }}"}', "'item' is there for steps with for_each only"),
    "a template that is none": (
        'steps:\n  a: {prompt: "{{ inputs. }}"}',
        "2:7: steps.a.prompt: line 1 of the template",
    ),
    "a template that does things": (
        'steps:\n  a: {prompt: "{% set x = 1 %}"}',
        "is not for templates of a flow; they take if and for",
    ),
    "a condition that is none": ('steps:\n  a: {run: x, if: "1 +"}', "2:15: steps.a.if"),
    "values in a command": (
        'inputs: {x: {type: string}}\nsteps:\n  a: {run: "echo {{ inputs.x }}"}',
        'its values are variables: "$input_NAME"',
    ),
    "an unknown agent": (
        "steps:\n  a: {prompt: x, agent: manu}",
        "2:18: steps.a.agent: there is no agent 'manu'; did you mean 'manus'?",
    ),
    "an unknown tool": (
        "steps:\n  a: {prompt: x, tools: [web_serch]}",
        "2:26: steps.a.tools[0]: there is no tool 'web_serch'; did you mean 'web_search'?",
    ),
    "an output that is no schema": (
        "steps:\n  a: {prompt: x, output: {type: thing}}",
        "steps.a.output: this is no valid JSON Schema",
    ),
    "a default of the wrong type": (
        "inputs:\n  n: {type: integer, default: many}\nsteps: {a: {run: x}}",
        "2:22: inputs.n.default: the default does not fit",
    ),
    "a default of a required input": (
        "inputs:\n  n: {type: integer, required: true, default: 1}\nsteps: {a: {run: x}}",
        "an input that is required has no default",
    ),
    "too many steps": (
        "limits: {max_steps: 1}\nsteps: {a: {run: x}, b: {run: x}}",
        "2 steps are more than limits.max_steps allows (1)",
    ),
    "an empty prompt": ("steps:\n  a: {prompt: ' '}", "2:7: steps.a.prompt: this is empty"),
    "a result of no tool": ('steps:\n  a: {prompt: "{{ tool_search_result }}"}', "no step uses the tool 'search'"),
    "a step name that cannot be checked": (
        'inputs: {x: {type: string}}\nsteps:\n  a: {prompt: "{{ steps[inputs.x] }}"}',
        "must have a name in quotes",
    ),
    "a plan step without a planner": ("steps:\n  a: {plan: do it}", "nobody is there to make plans"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(FlowError) as error:
        Flow.parse(text).check(AROUND)
    assert said in str(error.value)


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    with pytest.raises(FlowError) as error:
        Flow.parse("steps:\n  a: {promt: x}\n  b: {run: x, timeout: soon}\nlimts: 3")
    assert len(error.value.problems) == 3
    with pytest.raises(FlowError) as error:
        Flow.parse('steps:\n  a: {prompt: "{{ x }}", agent: nix, needs: [b]}').check(AROUND)
    assert len(error.value.problems) == 3


def test_the_example_is_right_and_comes_back_from_its_own_text() -> None:
    flow = Flow.parse(EXAMPLE)
    flow.check(AROUND)
    assert Flow.parse(flow.text).plan == flow.plan
    assert flow.plan.steps["send"].approval is not None
    assert flow.plan.steps["send"].approval.timeout == 86_400
    assert files.plan_of(flow.plan.as_json()) == flow.plan


def test_the_schema_knows_right_from_wrong() -> None:
    validator = jsonschema_rs.validator_for(files.json_schema())
    assert validator.is_valid(yaml.read(EXAMPLE).values)
    assert not validator.is_valid({"steps": {"a": {"promt": "x"}}})
    assert not validator.is_valid({"steps": {"a": {"prompt": "x", "run": "y"}}})
    assert not validator.is_valid({"steps": {}})


def test_words_that_other_readers_turn_into_something_else_stay_text() -> None:
    values = yaml.read("a: yes\nb: no\nc: on\nd: 1:30\ne: 012\nf: 2026-11-30\ng: true\nh: 1.5\ni: ~\nj: '12'").values
    assert values == {
        "a": "yes",
        "b": "no",
        "c": "on",
        "d": "1:30",
        "e": "012",
        "f": "2026-11-30",
        "g": True,
        "h": 1.5,
        "i": None,
        "j": "12",
    }


def test_a_small_file_that_means_a_large_one_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    with pytest.raises(FlowError, match="too many values"):
        yaml.read("\n".join(lines))
    with pytest.raises(FlowError, match=r"nests them too deeply|nested too deeply"):
        yaml.read("a: " + "[" * 3_000 + "]" * 3_000)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), PLAIN, max_size=4))
def test_any_values_come_back_from_what_is_written(values: dict[str, object]) -> None:
    printable = yaml.write(values)
    assert yaml.read(printable).values == (values or {})


@pytest.mark.timeout(10)
def test_a_plan_of_thousands_of_steps_is_checked_in_its_time() -> None:
    steps = {f"s{at}": Step(prompt=f"{{{{ step_s{at - 1}_output }}}}", needs=[f"s{at - 1}"]) for at in range(1, 4_000)}
    check(Plan(steps={"s0": Step(run="true"), **steps}, limits=PlanLimits(max_steps=5_000)))


def test_a_sub_flow_is_checked_with_the_file_that_uses_it(tmp_path: Path) -> None:
    (tmp_path / "sub.yaml").write_text(
        'inputs: {who: {type: string, required: true}}\nsteps:\n  a: {prompt: "{{ inputs.wo }}"}', encoding="utf-8"
    )
    (tmp_path / "main.yaml").write_text("steps:\n  s: {flow: sub.yaml, with: {whom: x}}", encoding="utf-8")
    flow = Flow.load(tmp_path / "main.yaml")
    with pytest.raises(FlowError) as error:
        flow.check(Surroundings(folder=flow.folder))
    said = str(error.value)
    assert "sub.yaml:3:7: steps.a.prompt: there is no input 'wo'" in said
    assert "sub.yaml has no input 'whom'; did you mean 'who'?" in said
    assert "sub.yaml needs the input 'who'" in said


def test_a_flow_that_runs_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_text("steps:\n  s: {flow: main.yaml}", encoding="utf-8")
    flow = Flow.load(tmp_path / "main.yaml")
    with pytest.raises(FlowError, match="does one run itself"):
        flow.check(Surroundings(folder=flow.folder))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FlowError, match=r"nix\.yaml cannot be read: No such file"):
        Flow.load(tmp_path / "nix.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\nsteps: {a: {run: x}}")
    with pytest.raises(FlowError, match="is not UTF-8"):
        Flow.load(tmp_path / "latin.yaml")


def test_a_flow_can_be_built_in_code() -> None:
    flow = Flow.of({"a": Step(run="true"), "b": {"run": "true", "needs": ["a"]}}, name="built")
    assert flow.plan == Plan(name="built", steps={"a": Step(run="true"), "b": Step(run="true", needs=["a"])})
    assert Flow.parse(flow.text).plan == flow.plan
