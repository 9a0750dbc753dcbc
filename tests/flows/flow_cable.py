"""A cable between our side and an SSH server: everything passes, until the cable is cut."""

import contextlib
import selectors
import socket
import struct
import threading
from types import TracebackType

PIECE_BYTES = 1 << 16
AT_ONCE = struct.pack("ii", 1, 0)


class Cable:
    """Listens on a port of its own and passes on what comes. `cut` resets all connections; new ones may be made."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._over = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> "Cable":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        with socket.create_connection(("127.0.0.1", self.port)):
            pass  # wakes the one that accepts
        self._threads[0].join(10)
        self.cut()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    @property
    def connections(self) -> int:
        """How many there are."""
        with self._lock:
            return len(self._open) // 2

    def cut(self) -> int:
        """Reset every connection; returns how many there were."""
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                    end.shutdown(socket.SHUT_RDWR)
            return len(self._open) // 2

    def _accept(self) -> None:
        while True:
            near, _address = self._listener.accept()
            if self._over:
                near.close()
                return
            try:
                far = socket.create_connection(self.target, timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            self._threads.append(threading.Thread(target=self._pass, args=(near, far)))
            self._threads[-1].start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        try:
            with selectors.DefaultSelector() as selector:
                for end, facing in other.items():
                    selector.register(end, selectors.EVENT_READ, facing)
                self._carry(selector)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open -= {near, far}
                near.close()
                far.close()

    def _carry(self, selector: selectors.BaseSelector) -> None:
        while True:
            for key, _events in selector.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)
                piece = source.recv(PIECE_BYTES)
                if not piece:
                    return
                key.data.sendall(piece)
