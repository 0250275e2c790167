"""forbid_network: only this machine can be reached."""

import socket

import pytest

from handloom.testing.network import NetworkForbiddenError, forbid_network


def test_other_machines_are_refused_and_this_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, forbid_network():
        with socket.create_connection(server.getsockname()):
            pass
        for address in (("192.0.2.1", 80), ("example.com", 80)):
            with pytest.raises(NetworkForbiddenError):
                socket.create_connection(address, timeout=1)
        with socket.socket() as plain, pytest.raises(NetworkForbiddenError):
            plain.connect_ex(("192.0.2.1", 80))
        assert socket.getaddrinfo("localhost", 80)


def test_it_ends_with_its_context() -> None:
    before = socket.socket.connect
    with forbid_network():
        assert socket.socket.connect is not before
    assert socket.socket.connect is before
