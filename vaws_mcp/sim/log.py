"""Log lines in the form vLLM prints them."""

import os
import sys
import time


class Log:
    """Writes whole lines of one process, each with its title and pid.

    Lines go to standard output in one write each, so that processes sharing the stream do not mix theirs.
    """

    def __init__(self, title: str) -> None:
        self.prefix = f"({title} pid={os.getpid()}) "

    def line(self, level: str, source: str, message: str) -> None:
        """Write one line of vLLM's logger, e.g. ``INFO 11-30 12:46:05 [model.py:733] ...``."""
        stamp = time.strftime("%m-%d %H:%M:%S")
        write(1, "".join(f"{self.prefix}{level} {stamp} [{source}] {part}\n" for part in message.split("\n")))

    def say(self, source: str, message: str) -> None:
        """Write an INFO line."""
        self.line("INFO", source, message)

    def traceback(self, source: str, function: str, error: str) -> None:
        """Write a traceback to standard error, as an uncaught exception leaves it."""
        frames = f'  File "/vllm-workspace/vllm/vllm/{source}", line 1, in {function}'
        text = f"Traceback (most recent call last):\n{frames}\n{error}\n"
        write(2, "".join(f"{self.prefix}{part}\n" for part in text.splitlines()))

    def error_traceback(self, source: str, lines: list[str]) -> None:
        """Write lines as ERROR log lines."""
        self.line("ERROR", source, "\n".join(lines))


def write(fd: int, text: str) -> None:
    """Write text to a file descriptor; a reader that went away is not an error."""
    data = text.encode("utf-8", "replace")
    try:
        while data:
            data = data[os.write(fd, data) :]
    except (BrokenPipeError, ConnectionError):
        return


def fail(message: str, status: int) -> int:
    """Write a message to standard error and return the exit status."""
    sys.stderr.write(message.rstrip("\n") + "\n")
    return status
