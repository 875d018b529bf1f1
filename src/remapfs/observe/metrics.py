"""The same figures for Prometheus, on a loopback address."""

from __future__ import annotations

import ipaddress
import os
import socket
from importlib.util import find_spec
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Thread
from time import time
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from remapfs.errors import RemapError
from remapfs.observe.processes import look_at
from remapfs.observe.report import SERVING, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from remapfs.observe.counters import Board
    from remapfs.observe.report import About

_HOST: Final = "127.0.0.1"
_PORTS: Final = 1 << 16
_FORM: Final = "give a port, or a loopback address with one, as 127.0.0.1:9464"
_CLIENT_SECONDS: Final = 5.0
_MOST_CLIENTS: Final = 8
_WAITING: Final = 8
_IDLE_SECONDS: Final = 3600.0


def parse_address(text: str) -> tuple[str, int]:
    """Read `PORT` or `HOST:PORT`; raises RemapError for anything but a loopback address."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else _HOST
    if not (port.isascii() and port.isdecimal() and int(port) < _PORTS):
        raise RemapError(f"--metrics {text}: {port!r} is not a port", _FORM)
    try:
        address = ipaddress.ip_address(_HOST if host == "localhost" else host)
    except ValueError:
        raise RemapError(f"--metrics {text}: {host!r} is not an address", _FORM) from None
    if not address.is_loopback:
        raise RemapError(
            f"--metrics {text}: {host} is not a loopback address, and metrics are served without a password",
            "give a loopback address, and let a proxy that asks who comes serve others",
        )
    return str(address), int(port)


def check(text: str) -> tuple[str, int]:
    """Read the address; raises RemapError if it is none of loopback, or prometheus-client is missing."""
    address = parse_address(text)
    if find_spec("prometheus_client") is None:
        raise RemapError(
            "--metrics needs the prometheus-client package", "pip install 'remapfs[metrics]', or leave it out"
        )
    return address


def listen(text: str) -> socket.socket:
    """Listen where metrics are asked for; raises RemapError if that is not possible."""
    host, port = check(text)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # Else a restart within a minute would find the address taken by connections of the dead.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise RemapError(
            f"--metrics {text}: {error.strerror}", "give another port; see who has it: ss -ltnp"
        ) from None
    return listening


def serve(listening: socket.socket, about: About, board: Board) -> None:
    """Answer on the socket from threads that end with the process."""
    from prometheus_client import CollectorRegistry, make_wsgi_app  # noqa: PLC0415 - an optional package

    registry = CollectorRegistry()
    registry.register(_Collector(about, board))
    server = _Server(listening, make_wsgi_app(registry))
    # It looks so often whether it has to stop, which it never has.
    Thread(target=server.serve_forever, args=(_IDLE_SECONDS,), name="metrics", daemon=True).start()


class _Collector:
    """Makes the metrics at the moment of a question."""

    def __init__(self, about: About, board: Board) -> None:
        self._about = about
        self._board = board

    def describe(self) -> list[Metric]:
        """Name nothing before it is asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        from prometheus_client import core  # noqa: PLC0415 - an optional package

        counts, about = self._board.read(), self._about
        server = look_at(counts.server) if counts.server else None
        info = core.InfoMetricFamily("remapfs", "What is mounted.")
        labels = {
            "mountpoint": about.mountpoint,
            "source": about.source,
            "presenter": about.presenter,
            "rules_digest": about.digest,
            "version": about.version,
        }
        info.add_metric([], {name: _printable(text) for name, text in labels.items()})
        yield info
        gauge, counter = core.GaugeMetricFamily, core.CounterMetricFamily
        state, _ = state_of(counts, server)
        yield gauge("remapfs_up", "Whether readers are served.", value=state == SERVING)
        yield gauge(
            "remapfs_start_time_seconds", "When the counters began.", value=round(time() - counts.uptime, 3)
        )
        yield counter("remapfs_generations", "Servers that were started.", value=counts.generations)
        yield counter("remapfs_reads", "Reads that were answered.", value=counts.reads)
        yield counter("remapfs_read_bytes", "Bytes that were given to readers.", value=counts.read_bytes)
        requests = counter("remapfs_requests", "Requests of the kernel.", labels=["operation"])
        for operation, number in counts.requests.items():
            requests.add_metric([operation], number)
        yield requests
        errors = counter("remapfs_errors", "Requests that were answered with an error.", labels=["errno"])
        for name, number in counts.errors.items():
            errors.add_metric([name], number)
        yield errors
        if counts.last_read is not None:
            yield gauge(
                "remapfs_last_read_timestamp_seconds",
                "When a reader was last given bytes.",
                value=round(time() - counts.last_read, 3),
            )
        yield gauge(
            "remapfs_request_wait_seconds",
            "For how long the oldest request has been in hand.",
            value=round(max(counts.in_hand, default=0.0), 3),
        )


def _printable(text: str) -> str:
    """Replace what no text can hold: bytes of a path that are not UTF-8."""
    return os.fsencode(text).decode(errors="replace")


class _Handler(WSGIRequestHandler):
    """Gives a client that says nothing up, and does not log each question."""

    timeout = _CLIENT_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as the base class has it
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """Answers on a socket that listens already, a few clients at once."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, application: Any) -> None:  # noqa: ANN401 - a WSGI app
        host, port, *_ = listening.getsockname()
        super().__init__((host, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = host, port
        self.setup_environ()
        self.set_app(application)
        self._free = BoundedSemaphore(_MOST_CLIENTS)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base class
        """Start a thread for a client, or close the connection if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as there
        """Answer one client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the base class
        """Let a client go that went away or said nothing."""
