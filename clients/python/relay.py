"""A TCP relay between the SDK and the gateway that counts requests and keeps what the gateway sent.

The SDK retries by itself, below its own interface: only the wire tells how many requests it made. The relay changes one
thing, the `Host` header, as any reverse proxy does, so that the gateway sees its own name.
"""

from __future__ import annotations

import re
import socket
import threading

HOST = "127.0.0.1"
KEPT = 4 * 1024 * 1024
"""Bytes of answers that are kept; tests send far less."""


class Relay:
    def __init__(self, gateway_port: int) -> None:
        self._gateway_port = gateway_port
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._requests: list[str] = []
        self._answers = bytearray()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def requests(self) -> list[str]:
        """The request lines seen so far, such as `POST /v1/chat/completions HTTP/1.1`."""
        with self._lock:
            return list(self._requests)

    @property
    def answers(self) -> bytes:
        """Everything that the gateway sent, heads and HTTP chunk sizes included."""
        with self._lock:
            return bytes(self._answers)

    def close(self) -> None:
        with self._lock:
            sockets = [self._listener, *self._sockets]
        for one in sockets:
            # shutdown() wakes the thread that waits in accept() or recv(); close() alone would not
            _quietly(one.shutdown, socket.SHUT_RDWR)
            _quietly(one.close)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                gateway = socket.create_connection((HOST, self._gateway_port), timeout=5)
            except OSError:
                client.close()
                continue
            gateway.settimeout(None)
            for one in (client, gateway):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets += [client, gateway]
            for pump, pair in ((self._requests_of, (client, gateway)), (self._answers_to, (gateway, client))):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    def _requests_of(self, client: socket.socket, gateway: socket.socket) -> None:
        """Reads requests head by head; bodies have a length, as the SDK always sends them."""
        pending = b""
        try:
            while True:
                while b"\r\n\r\n" not in pending:
                    received = client.recv(65536)
                    if not received:
                        return
                    pending += received
                head, pending = pending.split(b"\r\n\r\n", 1)
                with self._lock:
                    self._requests.append(head.split(b"\r\n", 1)[0].decode("latin-1"))
                head = re.sub(rb"(?mi)^host:[^\r]*", b"host: %s:%d" % (HOST.encode(), self._gateway_port), head)
                gateway.sendall(head + b"\r\n\r\n")
                length = re.search(rb"(?mi)^content-length: *(\d+)", head)
                missing = int(length.group(1)) if length else 0
                while missing > 0:
                    received = pending or client.recv(65536)
                    if not received:
                        return
                    body, pending = received[:missing], received[missing:]
                    gateway.sendall(body)
                    missing -= len(body)
        except OSError:
            pass
        finally:
            # The client has gone: the gateway must learn it at once, as it would without the relay.
            _quietly(gateway.shutdown, socket.SHUT_RDWR)

    def _answers_to(self, gateway: socket.socket, client: socket.socket) -> None:
        try:
            while received := gateway.recv(65536):
                with self._lock:
                    self._answers += received[: KEPT - len(self._answers)]
                client.sendall(received)
        except OSError:
            pass
        finally:
            _quietly(client.shutdown, socket.SHUT_RDWR)


def _quietly(action, *arguments) -> None:
    """A socket that is closed already is as good as one that this call closes."""
    try:
        action(*arguments)
    except OSError:
        pass
