"""Fixtures of the live tests: the real servers, or a skip that says how to get them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import install_vllm
import pytest
import sshd


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests that run real servers."""
    config.addinivalue_line("markers", "live: runs the real vLLM or the real OpenSSH server")


@pytest.fixture
def ssh_server(tmp_path: Path) -> Iterator[sshd.Sshd]:
    """A real OpenSSH server for one test."""
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    with sshd.running_sshd(tmp_path / "sshd") as server:
        yield server


@pytest.fixture(scope="session")
def vllm_environment() -> install_vllm.Environment:
    """The installed environment of the real vLLM."""
    place = install_vllm.environment()
    if not place.ready:
        pytest.skip(f"the real vLLM is not installed: {install_vllm.HOW_TO_INSTALL}")
    return place
