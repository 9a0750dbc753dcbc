"""A configuration is found here or on the endpoint, its commit is known, and what is not there is named."""

from __future__ import annotations

import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from nightly_files import ANCHORS, BASIC, DOUBLED, EPD, MISNESTED

from vaws_mcp.bench.models import BenchRunRequest
from vaws_mcp.bench.nightly import Reference, choose, settings_of
from vaws_mcp.bench.nightly_models import Source
from vaws_mcp.bench.nightly_operations import NightlyShowRequest, nightly_show
from vaws_mcp.bench.nightly_sources import CONFIGS, Text, read_text
from vaws_mcp.bench.parse_nightly import parse_nightly
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure, NeedsInput, Refused
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.models import EndpointConfig

SOURCE = Source("local", "/r", "/r/x.yaml", None, modified=None)


def git(repo: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(["git", "-C", str(repo), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of vllm-ascend with two configurations."""
    repo = tmp_path / "vllm-ascend"
    configs = repo / CONFIGS
    configs.mkdir(parents=True)
    (configs / "Basic-W8A8.yaml").write_text(BASIC)
    (configs / "Anchors.yaml").write_text(ANCHORS)
    (configs / "Epd.yaml").write_text(EPD)
    (configs / "notes.txt").write_text("no configuration")
    git(tmp_path, "init", "-q", "-b", "main", str(repo))
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "configurations")
    return repo


def context(tmp_path: Path, resources: Resources) -> Context:
    return Context(state_dir=tmp_path / "state", resources=resources)


async def nowhere() -> Endpoint:
    pytest.fail("the endpoint was asked")


def to(endpoint: Endpoint) -> Callable[[], Awaitable[Endpoint]]:
    async def connect() -> Endpoint:
        return endpoint

    return connect


async def reached(tmp_path: Path, resources: Resources, repo: Path) -> Endpoint:
    config = EndpointConfig(name="here", vllm_ascend_repo=str(repo))
    return await connected(context(tmp_path, resources), config)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["Basic-W8A8", "Basic-W8A8.yaml"])
@pytest.mark.parametrize("below", ["", CONFIGS])
async def test_a_directory_here_needs_no_endpoint(tree: Path, name: str, below: str) -> None:
    text = await read_text(name, str(tree / below), nowhere)
    assert text.raw.decode() == BASIC
    assert text.source.where == "local"
    assert (text.source.commit, text.source.modified) == (git(tree, "rev-parse", "HEAD"), False)


@pytest.mark.asyncio
async def test_a_change_of_the_file_is_seen(tree: Path) -> None:
    (tree / CONFIGS / "Anchors.yaml").write_text(BASIC)
    assert (await read_text("Anchors", str(tree), nowhere)).source.modified is True
    assert (await read_text("Basic-W8A8", str(tree), nowhere)).source.modified is False


@pytest.mark.asyncio
async def test_a_directory_outside_of_a_tree_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(BASIC)
    text = await read_text("x", str(tmp_path), nowhere)
    assert (text.source.commit, text.source.modified) == (None, None)


@pytest.mark.asyncio
async def test_the_endpoint_is_read_at_its_commit_whatever_its_tree_looks_like(tree: Path, tmp_path: Path) -> None:
    (tree / CONFIGS / "Anchors.yaml").write_text("changed")
    async with Resources() as resources:
        text = await read_text("Anchors", None, to(await reached(tmp_path, resources, tree)))
    assert text.raw.decode().strip() == ANCHORS.strip()
    head = git(tree, "rev-parse", "HEAD")
    assert text.source == Source("endpoint", str(tree), f"{CONFIGS}/Anchors.yaml", head, modified=False)


@pytest.mark.asyncio
async def test_a_commit_without_configurations_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", str(tmp_path / "old"))
    git(tmp_path / "old", "commit", "-q", "--allow-empty", "-m", "old")
    async with Resources() as resources:
        endpoint = await reached(tmp_path, resources, tmp_path / "old")
        with pytest.raises(Failure) as caught:
            await read_text("x", None, to(endpoint))
        assert caught.value.code == "nightly_absent"
        with pytest.raises(Refused) as refused:
            await read_text("x", "/no/such/directory", to(endpoint))
        assert refused.value.code == "nightly_unknown"
        assert "/no/such/directory" in refused.value.message


@pytest.mark.asyncio
async def test_a_directory_that_is_only_on_the_endpoint_is_read_there(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_here(_root: str) -> Path | None:
        return None

    monkeypatch.setattr("vaws_mcp.bench.nightly_sources.folder_here", not_here)
    async with Resources() as resources:
        endpoint = await reached(tmp_path, resources, tree)
        for root in (tree, tree / CONFIGS):
            text: Text = await read_text("Epd", str(root), to(endpoint))
            assert text.raw.decode() == EPD
            assert (text.source.where, text.source.commit) == ("endpoint", git(tree, "rev-parse", "HEAD"))


@pytest.mark.asyncio
async def test_an_unknown_name_is_answered_with_the_nearest(tree: Path) -> None:
    with pytest.raises(Refused) as caught:
        await read_text("Basic-W8A16", str(tree), nowhere)
    assert caught.value.code == "nightly_unknown"
    assert "Did you mean Basic-W8A8?" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "-x", ".git", "", "a\0b"])
def test_a_name_cannot_leave_its_directory(name: str) -> None:
    with pytest.raises(Refused) as caught:
        Reference.of(name)
    assert caught.value.code == "nightly_name_malformed"


def test_one_of_several_cases_and_blocks_must_be_named() -> None:
    file = parse_nightly(ANCHORS.encode(), "x")
    with pytest.raises(NeedsInput) as caught:
        choose(file, Reference("x", None), SOURCE)
    assert (caught.value.code, caught.value.hint) == (
        "nightly_case_needed",
        "Name one, for example refer_nightly=x:single.",
    )
    assert choose(file, Reference("x", "tp4"), SOURCE).block is not None
    assert choose(file, Reference("x", "bare"), SOURCE).block is None
    several = parse_nightly(DOUBLED.encode(), "x")
    with pytest.raises(NeedsInput) as needed:
        choose(several, Reference("x", None), SOURCE)
    assert needed.value.hint == "Name one, for example refer_nightly=x:underscore-json:perf_2."
    assert choose(several, Reference("x", None), SOURCE, block_matters=False).block is None
    chosen = choose(several, Reference("x", "underscore-json:perf_1"), SOURCE)
    assert chosen.block is not None
    assert chosen.block.name == "perf_1"


@pytest.mark.parametrize(
    ("rest", "code"),
    [("nope", "nightly_case_unknown"), ("right:nope", "nightly_block_unknown"), ("wrong", "nightly_case_malformed")],
)
def test_what_a_reference_names_must_be_there_and_usable(rest: str, code: str) -> None:
    with pytest.raises(Refused) as caught:
        choose(parse_nightly(MISNESTED.encode(), "x"), Reference("x", rest), SOURCE)
    assert caught.value.code == code


@pytest.mark.asyncio
async def test_showing_tells_the_usable_from_the_others(tree: Path, tmp_path: Path) -> None:
    async with Resources() as resources:
        ctx = context(tmp_path, resources)
        shown = await nightly_show(NightlyShowRequest(name="Anchors", nightly_root=str(tree)), ctx)
        assert shown.model_dump()["source"]["where"] == "local"
        assert [case["name"] for case in shown.model_dump()["cases"]] == ["single", "tp4", "bare"]
        with pytest.raises(Refused, match="several servers") as caught:
            await nightly_show(NightlyShowRequest(name="Epd", nightly_root=str(tree)), ctx)
    assert caught.value.code == "nightly_unsupported"
    assert caught.value.fields["cases"][0]["usable"] is False


@pytest.mark.asyncio
async def test_settings_say_which_case_and_commit_they_came_from(tree: Path, tmp_path: Path) -> None:
    async with Resources() as resources:
        endpoint = await reached(tmp_path, resources, tree)
        ctx = context(tmp_path, resources)
        request = BenchRunRequest(model="/m", refer_nightly="Anchors:tp4", runs=2)
        found = await settings_of(ctx, endpoint, request)
    assert (found.serve.tp, found.origin["tp"], found.origin["runs"]) == (4, "nightly:Anchors:tp4", "explicit")
    assert found.nightly is not None
    assert found.nightly["source"]["commit"] == git(tree, "rev-parse", "HEAD")
    assert found.nightly["not_carried_over"] == []
    assert any("another workload" in warning for warning in ctx.warnings)
    assert any("demo/M" in warning for warning in ctx.warnings)
