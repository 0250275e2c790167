"""Host names in the one spelling in which they are looked up and compared, whatever a person, a model or a page writes."""

from urllib.parse import urlsplit


def canonical(name: str) -> str:
    """Lower case, Unicode in its ASCII form (UTS 46), no dot at the end. Raises: UnicodeError for what is no name."""
    name = name.strip().lower()
    if not name.isascii():
        import idna

        name = idna.encode(name, uts46=True).decode()
    return name.rstrip(".") or name


def of_url(url: str) -> str:
    """The host to which a URL leads, written with its scheme or without; empty where there is none."""
    url = url.strip()
    try:
        return canonical(urlsplit(url if "://" in url else f"https://{url}").hostname or "")
    except ValueError:  # a UnicodeError is one
        return ""


def covers(pattern: str, name: str) -> bool:
    """Whether a name is the one of the pattern; `*.example.org` stands for every name below it. Neither need be canonical."""
    below = pattern.strip().startswith("*.")
    try:
        wanted, name = canonical(pattern.strip()[2:] if below else pattern), canonical(name)
    except UnicodeError:
        return False
    return name.endswith(f".{wanted}") if below else name == wanted
