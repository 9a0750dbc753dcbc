"""What is compiled is held to one state of its inputs; what is unknown is never taken for equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from parity_world import commit_all, git, new_tree, opened, write

from vaws_mcp.core.failures import Blocked
from vaws_mcp.source.native import Digest, compare_native, differing, native_digest, require_native
from vaws_mcp.worker.engine.tree.native_inputs import INPUTS, is_input

FILES = {
    "csrc/op.cpp": "1\n",
    "setup.py": "1\n",
    "vllm_ascend/envs.py": "1\n",
    "vllm_ascend/device/hardware.py": "1\n",
    "vllm_ascend/ops.py": "1\n",
    "docs/index.md": "1\n",
}
SHARED = (
    ("csrc/**", "csrc/deep/er/x.cpp"),
    ("cmake/**", "cmake/a.cmake"),
    ("CMakeLists.txt", "CMakeLists.txt"),
    ("setup.py", "setup.py"),
    ("pyproject.toml", "pyproject.toml"),
    ("requirements.txt", "requirements.txt"),
    (".gitmodules", ".gitmodules"),
    ("csrc/third_party/catlass", "csrc/third_party/catlass"),
    ("vllm_ascend/envs.py", "vllm_ascend/envs.py"),
    ("vllm_ascend/device/hardware.py", "vllm_ascend/device/hardware.py"),
)


@pytest.mark.parametrize("path", [path for _rule, path in SHARED])
def test_every_input_of_the_build_counts(path: str) -> None:
    assert is_input(path, "vllm_ascend")


@pytest.mark.parametrize("path", ["vllm_ascend/ops.py", "csrc.md", "docs/csrc/x", "setup.pyc", "tests/setup.py"])
def test_nothing_else_does(path: str) -> None:
    assert not is_input(path)
    assert INPUTS["vllm_ascend"]


@pytest.mark.asyncio
async def test_a_digest_follows_its_inputs_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOC_VERSION", "ascend910b1")
    remote = new_tree(tmp_path / "remote", FILES)
    inner = new_tree(tmp_path / "inner", {"kernel.h": "one\n"})
    git(remote, "submodule", "--quiet", "add", str(inner), "csrc/third_party/catlass")
    commit_all(remote)
    async with opened(tmp_path / "w", remote, remote) as world:
        endpoint = await world.endpoint()

        async def changed(before: Digest) -> tuple[Digest, list[str]]:
            now = await native_digest(endpoint, str(remote))
            assert now.value is not None, now.why
            assert (now.value == before.value) == (differing(before, now) == [])
            return now, differing(before, now)

        first = await native_digest(endpoint, str(remote))
        assert first.parts["env SOC_VERSION"] == "ascend910b1"
        assert "torch" in first.parts
        assert str(first.parts["python abi"]).startswith("cpython-")
        write(remote, {"vllm_ascend/ops.py": "2\n", "docs/index.md": "2\n"})
        assert (await changed(first))[1] == []
        write(remote, {"csrc/op.cpp": "2\n"})
        assert (await changed(first))[1] == ["file csrc/op.cpp"]
        write(remote, {"csrc/fresh.cpp": "untracked\n"})
        assert (await changed(first))[1] == ["file csrc/fresh.cpp", "file csrc/op.cpp"]
        write(remote, {"csrc/op.cpp": "1\n"})
        (remote / "csrc/fresh.cpp").unlink()
        assert (await changed(first))[1] == []
        write(remote / "csrc/third_party/catlass", {"kernel.h": "two\n"})
        commit_all(remote / "csrc/third_party/catlass")
        assert (await changed(first))[1] == ["file csrc/third_party/catlass"]


@pytest.mark.asyncio
async def test_a_digest_that_cannot_be_taken_says_why(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", new_tree(tmp_path / "local", FILES), tmp_path / "absent") as world:
        digest = await native_digest(await world.endpoint(), str(tmp_path / "absent"))
        assert digest.value is None
        assert str(tmp_path / "absent") in str(digest.why)


def test_the_gate_fails_closed() -> None:
    one = Digest("1", None, {"file a": "x", "torch": "2", "gone": None})
    other = Digest("2", None, {"file a": "y", "torch": "2"})
    unknown = Digest(None, "no git", {"file a": "x"})
    require_native(one, one, "b")
    assert compare_native(one, other).inputs == ("file a", "gone")
    assert compare_native(one, other).flags() == {"native_input_changed": True}
    with pytest.raises(Blocked, match="other native inputs") as caught:
        require_native(one, other, "b")
    assert caught.value.code == "native_inputs_differ"
    for pair in ((one, unknown), (unknown, one), (unknown, unknown)):
        assert compare_native(*pair).flags() == {"native_input_unverified": True}
        with pytest.raises(Blocked, match="no git") as caught:
            require_native(*pair, "b")
        assert caught.value.code == "native_inputs_unverified"
