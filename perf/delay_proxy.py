"""A TCP proxy that delivers every byte a fixed time later, in order and without a limit of bandwidth.

    python delay_proxy.py HOST PORT DELAY_MS

It prints the port it listens on and runs until it is terminated. Threads that sleep wake up more exactly than an event
loop, whose timers are rounded up to milliseconds.
"""

import contextlib
import queue
import socket
import sys
import threading
import time

CHUNK_BYTES = 256 << 10
MAX_CHUNKS = 4096
Chunk = tuple[float, bytes]


def main(host: str, port: int, delay_s: float) -> None:
    """Accept connections for ever and carry each to ``host:port``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client, _address = listener.accept()
            server = socket.create_connection((host, port), 10)
            server.settimeout(None)
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            carry(client, server, delay_s)
            carry(server, client, delay_s)


def carry(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    """Let two threads move bytes from source to target: one notes when each is due, one delivers it then."""
    chunks: queue.Queue[Chunk] = queue.Queue(MAX_CHUNKS)
    for work in (take, deliver):
        end = source if work is take else target
        threading.Thread(target=work, args=(end, chunks, delay_s), daemon=True).start()


def take(source: socket.socket, chunks: "queue.Queue[Chunk]", delay_s: float) -> None:
    """Put what arrives into the queue; an empty piece says that nothing more will come."""
    data = b"-"
    while data:
        try:
            data = source.recv(CHUNK_BYTES)
        except OSError:
            data = b""
        chunks.put((time.perf_counter() + delay_s, data))


def deliver(target: socket.socket, chunks: "queue.Queue[Chunk]", _delay_s: float) -> None:
    """Send each piece when it is due."""
    while True:
        due, data = chunks.get()
        wait = due - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        try:
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
        except OSError:
            with contextlib.suppress(OSError):
                target.close()
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000)
