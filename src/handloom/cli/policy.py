"""The commands about what tools may do."""

from handloom import config, wiring
from handloom.cli import codes
from handloom.policy import Asked, commands, decide


def check() -> None:
    """The rules as they hold here; a mistake in them, or an example they miss, has been an error by then."""
    loaded = config.load()
    policy = wiring.policy_for(loaded)
    if loaded.untrusted is not None:
        print(f"{loaded.untrusted}: not trusted, so it may only be stricter (`handloom config trust` allows the rest)")
    print(f"mode {policy.mode}, alone {policy.alone}, {'sandboxed' if policy.sandboxed else 'UNSANDBOXED'}")
    print(f"after {', '.join(policy.taint.sources)}: {policy.taint.gate}")
    for rule in policy.rules:
        print(rule)
    for hook in policy.hooks:
        print(f"hook {hook.on} {hook.tool}: {hook.command}")


def explain(command: str) -> int:
    """The decision on a shell command; the exit code is 0 when it would run, 3 when it would be asked for, 5 when it would be denied."""
    policy = wiring.policy_for(config.load())
    plain = commands.plain(command)
    if plain is None:
        print("not made of plain commands alone, so no rule can allow it; it may run:")
    for words in plain if plain is not None else commands.every(command):
        print(f"  {' '.join(words)}")
    arguments = {"command": command}
    for rule in policy.rules:
        if rule.fits("bash", arguments):
            print(f"fits: {rule}")
    verdict = decide(policy, Asked(tool="bash", arguments=arguments, effects=frozenset({"execute"})))
    print(f"{verdict.do}: {verdict.reason}{f' [{verdict.rule}]' if verdict.rule else ''}")
    return {"allow": codes.SUCCESS, "ask": codes.WAITING, "deny": codes.DENIED}[verdict.do]
