"""Both ends of a transfer in one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vaws_mcp.worker.engine.artifacts.entries import bytes_of
from vaws_mcp.worker.engine.artifacts.flow import Place, Watch, receive_tree, send_tree
from vaws_mcp.worker.engine.artifacts.link import ByteQueue, Link, LinkLost
from vaws_mcp.worker.engine.artifacts.plan import Wish


def pair() -> tuple[Link, Link]:
    """Return two links that talk to each other."""
    one, two = ByteQueue(), ByteQueue()

    def into(queue: ByteQueue) -> Callable[[list[bytes]], None]:
        def send(chunks: list[bytes]) -> None:
            queue.wait_room()
            for chunk in chunks:
                queue.put(chunk)

        return send

    return Link(one, into(two)), Link(two, into(one))


def place(target: Path | str) -> Place:
    return Place(str(target), "name", os.path.realpath)


def receive(link: Link, target: Path | str, **wish: bool) -> dict[str, Any]:
    return receive_tree(link, place(target), Wish(**wish), Watch())


def move(source: Path | str, target: Path | str, **wish: bool) -> dict[str, Any]:
    """Move a tree within this machine; an error of the sender is raised here too."""
    sender, receiver = pair()
    errors: list[Exception] = []

    def work() -> None:
        try:
            send_tree(sender, bytes_of(str(source)), Watch(), dry_run=wish.get("dry_run", False))
        except Exception as error:  # noqa: BLE001 - it is raised again in the other thread
            errors.append(error)
            receiver.inbox.close(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        return receive(receiver, target, **wish)
    except LinkLost:
        thread.join(20)
        raise errors[0] from None
    finally:
        sender.inbox.close("the receiver has ended")
        thread.join(20)
