"""Settings: which layer wins, and what a mistake says."""

from pathlib import Path

import pytest

from handloom import config
from handloom.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "项目" / ".handloom").mkdir(parents=True)
    return tmp_path / "项目"


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def load(home: Path, project: Path, flags: dict[str, object] | None = None, **variables: str) -> config.Loaded:
    return config.load(folder=project, environment={"HANDLOOM_HOME": str(home), **variables}, flags=flags)


def test_flags_beat_variables_beat_the_project_beat_the_person_beat_the_defaults(home: Path, project: Path) -> None:
    write(home / "config.toml", '[llm]\nmodel = "user"\nmax_context = 5000\n[limits]\nmax_turns = 5\nmax_cost = 1.5')
    write(project / config.PROJECT_FILE, '[llm]\nmodel = "project"\n[limits]\nmax_turns = 6')
    config.trust(project, load(home, project).folders)
    loaded = load(
        home, project, {"limits": {"max_turns": 8}}, HANDLOOM_LLM__MODEL="environment", HANDLOOM_LIMITS__MAX_TURNS="7"
    )
    assert loaded.settings.llm.model == "environment"
    assert loaded.settings.llm.max_context == 5_000
    assert loaded.settings.limits.max_turns == 8
    assert loaded.settings.limits.max_cost == 1.5
    assert loaded.settings.agent == "manus"


def test_a_projects_file_counts_only_in_a_trusted_folder(home: Path, project: Path) -> None:
    write(project / config.PROJECT_FILE, '[llm]\nmodel = "sneaky"')
    loaded = load(home, project)
    assert loaded.settings.llm.model == ""
    assert loaded.untrusted == project.resolve() / config.PROJECT_FILE
    config.trust(project, loaded.folders)
    assert load(home, project).settings.llm.model == "sneaky"


def test_a_typo_is_named_with_its_place_and_the_word_that_was_meant(home: Path, project: Path) -> None:
    write(home / "config.toml", 'agent = "manus"\n\n[limits]\nmax_turn = 5')
    with pytest.raises(
        ConfigError, match=r"config.toml:4: limits.max_turn: unknown setting, did you mean 'max_turns'\?"
    ):
        load(home, project)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('agnet = "x"', "did you mean 'agent'"),
        ('[llm]\nmodle = "x"', "did you mean 'model'"),
        ('[llm.fast]\nmodel = "x"\nbase_ulr = "y"', "llm.fast.base_ulr: unknown setting, did you mean 'base_url'"),
        ("[agents.manus]\nmax_trns = 3", "agents.manus.max_trns: unknown setting, did you mean 'max_turns'"),
        ("[limits]\nmax_turns = 0", "limits.max_turns: Input should be greater than or equal to 1"),
        ('[limits]\nmax_turns = "many"', "limits.max_turns"),
        ('[limits]\ntimeout = "abc"', "limits.timeout: Value error, 'abc' is no duration; write seconds, or 90s"),
        ('[llm]\ntool_mode = "magic"', "llm.tool_mode: Input should be 'auto'"),
        ('[llm]\napi_key = "sk-1"', "a key does not belong into a file"),
        ('[llm.fast]\napi_key = "sk-1"', "api_key_env"),
        ("[llm\nmodel", "config.toml: "),
        ('[prices."gpt-x"]\nprompt = 1', "completion: Field required"),
    ],
)
def test_mistakes_are_said(home: Path, project: Path, text: str, words: str) -> None:
    write(home / "config.toml", text)
    with pytest.raises(ConfigError) as caught:
        load(home, project)
    assert words in str(caught.value)


def test_a_mistake_in_a_variable_names_the_environment(home: Path, project: Path) -> None:
    with pytest.raises(ConfigError, match=r"environment: llm.modle: unknown setting, did you mean 'model'"):
        load(home, project, HANDLOOM_LLM__MODLE="x")


def test_a_variable_in_place_of_a_table_is_named(home: Path, project: Path) -> None:
    with pytest.raises(ConfigError, match="HANDLOOM_LLM is not a table, and HANDLOOM_LLM__MODEL sets something in it"):
        load(home, project, HANDLOOM_LLM="x", HANDLOOM_LLM__MODEL="y")
    with pytest.raises(ConfigError, match="HANDLOOM_LLM is not a table"):
        load(home, project, HANDLOOM_LLM__MODEL="y", HANDLOOM_LLM="x")
    with pytest.raises(ConfigError, match="environment: llm: Input should be a valid dictionary"):
        load(home, project, HANDLOOM_LLM="x")
    table = load(home, project, HANDLOOM_LLM='{model = "x", max_context = 5000}', HANDLOOM_LLM__MODEL="y").settings.llm
    assert (table.model, table.max_context) == ("y", 5_000)


def test_several_mistakes_are_said_together(home: Path, project: Path) -> None:
    write(home / "config.toml", 'agnet = "x"\n[limits]\nmax_turns = 0')
    with pytest.raises(ConfigError) as caught:
        load(home, project)
    assert len(str(caught.value).splitlines()) == 2


def test_named_models_stand_beside_the_main_one(home: Path, project: Path) -> None:
    write(home / "config.toml", '[llm]\nmodel = "big"\n[llm.fast]\nmodel = "small"\nbase_url = "http://localhost:1/v1"')
    llm = load(home, project).settings.llm
    assert (llm.model, llm.named["fast"].model, llm.named["fast"].base_url) == ("big", "small", "http://localhost:1/v1")


def test_the_folders_follow_the_xdg_rules_and_one_variable_overrides_them(tmp_path: Path) -> None:
    xdg = config.Folders.of({"HOME": "/home/x", "XDG_DATA_HOME": "/data"})
    assert (str(xdg.config), str(xdg.data), str(xdg.cache)) == (
        "/home/x/.config/handloom",
        "/data/handloom",
        "/home/x/.cache/handloom",
    )
    own = config.Folders.of({"HOME": "/home/x", "HANDLOOM_HOME": str(tmp_path)})
    assert {own.config, own.data, own.cache.parent} == {tmp_path.resolve()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7_200), ("1d", 86_400), (12.5, 12.5), (None, None)],
)
def test_durations(text: str | float | None, expected: float | None) -> None:
    assert config.seconds(text) == expected


def test_a_bad_duration_says_how_to_write_one() -> None:
    with pytest.raises(ConfigError, match="10m"):
        config.seconds("soon")


def test_a_key_comes_from_its_variable_or_its_command() -> None:
    settings = config.ModelSettings(api_key_env="MY_KEY")
    assert settings.key({"MY_KEY": "k"}) == "k"
    assert config.ModelSettings(api_key_cmd="echo from-command").key({}) == "from-command"
    with pytest.raises(ConfigError, match="api_key_cmd"):
        config.ModelSettings(api_key_cmd="false").key({})


def test_the_schema_of_the_file_covers_every_section() -> None:
    schema = config.Settings.model_json_schema()
    assert set(schema["properties"]) == {
        "agent",
        "llm",
        "agents",
        "limits",
        "journal",
        "prices",
        "policy",
        "sandbox",
        "net",
        "browser",
        "search",
        "email",
        "checkpoints",
    }
    assert schema["additionalProperties"] is False


RULES = """
[policy]
mode = "ask"
[[policy.rule]]
tool = "bash"
command = ["git", ["status", "diff"]]
do = "allow"
match = ["git status -s"]
not_match = ["git log; rm -rf x"]
"""


def test_rules_are_read_with_their_examples(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(RULES)
    (tmp_path / "rules.toml").write_text('[[policy.rule]]\ntool = "fetch"\nhost = "example.org"\ndo = "allow"\n')
    settings = load(tmp_path, tmp_path).settings.policy
    assert settings.mode == "ask"
    assert [rule.tool for rule in settings.rule] == ["bash", "fetch"], "files add to the rules"
    assert settings.rule[0].rule().command == ("git", ("status", "diff"))


def test_a_rule_that_misses_its_example_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(RULES.replace("git status -s", "git push"))
    with pytest.raises(ConfigError, match=r"config.toml.*does not fit its example 'git push'"):
        load(tmp_path, tmp_path)
    (tmp_path / "config.toml").write_text(RULES.replace("git log; rm -rf x", "git diff"))
    with pytest.raises(ConfigError, match="fits its example 'git diff'"):
        load(tmp_path, tmp_path)


def test_a_folder_that_is_not_trusted_may_only_be_stricter(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".handloom").mkdir(parents=True)
    file = project / ".handloom" / "config.toml"
    file.write_text(
        '[policy]\nmode = "plan"\n[policy.taint]\ngate = "off"\n[sandbox]\nkind = "off"\nnet = "full"\n[llm]\nmodel = "evil"\n'
        '[[policy.rule]]\ndo = "allow"\n[[policy.rule]]\ndo = "deny"\ntool = "bash"\n[[policy.hook]]\non = "run_end"\ncommand = "evil"\n'
    )
    loaded = config.load(folder=project, environment={"HANDLOOM_HOME": str(tmp_path)})
    settings = loaded.settings
    assert (settings.policy.mode, settings.policy.taint.gate) == ("plan", "ask")
    assert [rule.do for rule in settings.policy.rule] == ["deny"]
    assert (settings.sandbox.kind, settings.sandbox.net, settings.llm.model) == ("auto", "none", "")
    assert settings.policy.hook == ()
    assert loaded.untrusted == file
    (tmp_path / "config.toml").write_text('[policy]\nmode = "deny"\n')
    file.write_text('[policy]\nmode = "ask"\n')
    loaded = config.load(folder=project, environment={"HANDLOOM_HOME": str(tmp_path)})
    assert loaded.settings.policy.mode == "deny"
