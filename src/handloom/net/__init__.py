"""What may be reached on the network, and how it is read: one guard for the tools that fetch and for the browser."""

from handloom.net.guard import Guard
from handloom.net.web import Response, get, request

__all__ = ["Guard", "Response", "get", "request"]
