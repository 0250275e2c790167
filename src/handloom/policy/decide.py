"""The decision on one call: a pure function of the policy, the call, and what the run has read so far."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from handloom.messages import Json, is_list, is_object
from handloom.policy.policy import Do, Policy, Rule, strictest

HARMLESS = frozenset({"read"})
OUTSIDE = frozenset({"network_send", "external"})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A call on which to decide.

    `effects` are the tool's, `destinations` the names of the arguments that say where something goes (none: every text in the arguments may).
    `tainted` names the untrusted tools that the run has read, `words` is what the person has said, `seen` tells whether a place stood in what was read.
    `granted` says that this tool was allowed for the run, `granted_tainted` that it was when untrusted text had been read.
    """

    tool: str
    arguments: Json
    effects: frozenset[str]
    destinations: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()
    words: str = ""
    seen: Callable[[str], bool] = lambda _place: False
    granted: bool = False
    granted_tainted: bool = False


@dataclass(frozen=True)
class Verdict:
    """What to do and why, in words for a person and for the model."""

    do: Do
    reason: str
    rule: str = ""


def decide(policy: Policy, asked: Asked) -> Verdict:
    """Rules first (deny, ask, allow), then the mode, taint and the effects; what would be asked is denied in mode `deny`, allowed with `yes`."""
    verdict = _decided(policy, asked)
    if verdict.do != "ask":
        return verdict
    if policy.mode == "deny":
        return Verdict("deny", f"{verdict.reason}, and nothing is asked in mode deny", verdict.rule)
    if policy.yes:
        return Verdict("allow", f"{verdict.reason}; allowed by --yes", verdict.rule)
    return verdict


def _decided(policy: Policy, asked: Asked) -> Verdict:
    fitting = [rule for rule in policy.rules if rule.fits(asked.tool, asked.arguments)]
    ruled = strictest(rule.do for rule in fitting)
    rule = next((rule for rule in fitting if rule.do == ruled), None)
    effects = _effects(policy, asked)
    if ruled == "deny" and rule:
        return _by(rule)
    if policy.mode == "plan" and not effects <= HARMLESS:
        return Verdict("deny", "in mode plan nothing is changed, run or sent")
    gated = _taint(policy, asked, effects)
    if gated and not (ruled == "allow" and any(rule.tainted for rule in fitting if rule.do == "allow")):
        return gated
    if ruled == "ask" and rule and not asked.granted:
        return _by(rule)
    if rule or asked.granted:
        return _by(rule) if rule and ruled == "allow" else Verdict("allow", "allowed for this run")
    return _by_effects(policy, effects)


def _by(rule: Rule) -> Verdict:
    said = {"allow": "a rule allows it", "ask": "a rule asks for approval", "deny": "a rule denies it"}[rule.do]
    return Verdict(rule.do, said, str(rule))


def _effects(policy: Policy, asked: Asked) -> frozenset[str]:
    """What the call may do here: a program that has a network may send."""
    sends = policy.network and "execute" in asked.effects
    return asked.effects | {"network_send"} if sends else asked.effects


def _taint(policy: Policy, asked: Asked, effects: frozenset[str]) -> Verdict | None:
    if policy.taint.gate == "off" or asked.granted_tainted or not asked.tainted or not effects & OUTSIDE:
        return None
    if "execute" not in effects and _is_free(policy, asked, effects):
        return None
    read = ", ".join(asked.tainted)
    return Verdict(policy.taint.gate, f"it sends or changes something outside after untrusted text was read ({read})")


def _is_free(policy: Policy, asked: Asked, effects: frozenset[str]) -> bool:
    """Whether nothing goes to a place that a stranger could have chosen for what it is told.

    A call of a tool that names its destinations, and has none this time (a click), sends nothing but what the page itself sends.
    """
    places = list(destinations(asked))
    sends_only = "external" not in effects
    if not places:
        return policy.taint.named_is_free and sends_only and bool(asked.destinations)
    return all(
        (policy.taint.named_is_free and is_named(place, asked.words))
        or (policy.taint.seen_is_free and sends_only and is_url(place) and asked.seen(place))
        for place in places
    )


def is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _by_effects(policy: Policy, effects: frozenset[str]) -> Verdict:
    if effects <= HARMLESS:
        return Verdict("allow", "it only reads")
    if policy.mode == "ask":
        return Verdict("ask", f"it may {_said(effects - HARMLESS)}, and mode ask asks for every effect")
    if "external" in effects:
        return Verdict("ask", "it may change things outside the workspace")
    if "execute" in effects and not policy.sandboxed:
        return Verdict("ask", "it runs a program UNSANDBOXED")
    return Verdict("allow", f"it may {_said(effects)}, which mode {policy.mode} allows")


def _said(effects: frozenset[str]) -> str:
    names = {
        "read": "read",
        "write_workspace": "write into the workspace",
        "execute": "run programs",
        "network_send": "send over the network",
        "external": "change things outside the workspace",
    }
    return " and ".join(sorted(names.get(effect, effect) for effect in effects))


def destinations(asked: Asked) -> Iterator[str]:
    """Where the call would send something: the arguments that say so, or every text in it where the tool does not tell."""
    values = [asked.arguments.get(name) for name in asked.destinations] if asked.destinations else [asked.arguments]
    for value in values:
        yield from _texts(value)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for inner in value.values():
            yield from _texts(inner)
    elif is_list(value):
        for inner in value:
            yield from _texts(inner)


def is_named(place: str, words: str) -> bool:
    """Whether a person's words hold the destination whole: an address, a name, or the very URL; a host alone only without a path that could carry data."""
    place, words = place.strip().lower().rstrip("/"), words.lower().replace("https://", "").replace("http://", "")
    if not place:
        return True
    try:
        parts = urlsplit(place)
    except ValueError:
        return False
    if (
        parts.scheme in ("http", "https")
        and not parts.path.strip("/")
        and not parts.query
        and not parts.fragment
        and not parts.username
    ):
        place = parts.netloc
    place = place.removeprefix("https://").removeprefix("http://")
    return re.search(rf"(?<![\w.@/-]){re.escape(place)}(?![\w@/?&=#-]|\.\w)", words) is not None
