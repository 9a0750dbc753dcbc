"""Which commands bring an endpoint to a runtime profile. Pure: facts in, steps and obstacles out."""

import shlex
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.redact import redact
from vaws_mcp.presets.runtime.compare import TREE, Comparison, Item, split_version
from vaws_mcp.presets.runtime.remotes import canonical, expected_remote
from vaws_mcp.presets.runtimes import RuntimeProfile, Wheel

Facts = dict[str, Any]
Kind = Literal["fetch", "check", "install", "clean", "build"]

PATTERNS = (
    "build",
    "*.egg-info",
    "csrc/build",
    "csrc/build_out",
    "csrc/output",
    "vllm_ascend/_build_info.py",
    "vllm_ascend/_cann_ops_custom/vendors",
    "vllm_ascend/lib/*.so",
    "vllm_ascend/lib*.so",
    "vllm_ascend/vllm_ascend_C*.so",
)
"""What a build of vllm-ascend writes into its tree, and nothing else does."""

EMPTY_ENV = {"VLLM_TARGET_DEVICE": "empty"}
FETCH_S, CHECK_S, INSTALL_S, BUILD_S = 3600.0, 600.0, 3600.0, 7200.0
# What no command of ours can change on a running endpoint.
_GIVEN = ("python", "driver", "cann toolkit", "cann operators", "cann nnal")


class Step(BaseModel):
    """One command on the endpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind = Field(description="fetch, check, install, clean or build.")
    command: str = Field(description="The command as a shell would take it.")
    argv: tuple[str, ...] = Field(description="The command's words.")
    env: dict[str, str] = Field(default_factory=dict, description="Variables added to the endpoint's environment.")
    stdin: str = Field(default="", description="What the command reads.")
    paths: tuple[str, ...] = Field(default=(), description="Absolute paths that it writes (fetch) or removes (clean).")
    timeout_s: float = Field(description="Bound of the command.")


def shown(step: Step) -> Step:
    """Return a step as it may be shown and kept: the address of an index can hold a password."""
    return Step.model_validate(redact(step.model_dump()))


@dataclass(frozen=True)
class Surroundings:
    """What a plan is made from besides the comparison.

    ``tree`` is the answer of ``build.inspect`` for vllm-ascend, or a sentence that says why it is refused.
    ``vllm_tree`` likewise has commit, and the commit of the tag that the profile asks for.
    """

    python: str | None
    wheel_dir: str
    tree: Facts | str | None
    vllm_tree: "VllmTree | None" = None


@dataclass(frozen=True)
class VllmTree:
    """The source tree of vLLM: where it stands, and where the tag of the wanted version does."""

    path: str
    commit: str | None
    tag: str
    tag_commit: str | None


@dataclass(frozen=True)
class Choices:
    """What the caller chose: where pip looks for packages, and whether to build anew although all versions match."""

    find_links: tuple[str, ...] = ()
    offline: bool = False
    rebuild: bool = False
    remotes: tuple[str, ...] = ()


@dataclass
class Plan:
    """Steps in order, and what stands in their way; with an obstacle nothing is carried out.

    ``tree`` is the tree of vllm-ascend as it was when the plan was made.
    """

    steps: list[Step] = field(default_factory=list[Step])
    obstacles: list[str] = field(default_factory=list[str])
    tree: Facts | None = None

    @property
    def trees(self) -> list[str]:
        """Return the source trees that the steps write."""
        return [step.argv[-1] for step in self.steps if step.kind == "build"]


def make_plan(comparison: Comparison, around: Surroundings, choices: Choices) -> Plan:
    """Return what has to be done. An endpoint that has the whole profile already gets an empty plan."""
    plan = Plan()
    if comparison.whole and not choices.rebuild:
        return plan
    plan.obstacles += [_obstacle(item) for item in comparison.items if item.component in _GIVEN and _off(item)]
    if around.python is None:
        plan.obstacles.append("there is no Python whose packages could be changed")
        return plan
    pip = (around.python, "-m", "pip")
    plan.steps += _wheel_steps(pip, comparison, around)
    plan.steps += _install_steps(pip, comparison, around, choices, plan)
    _build_vllm_ascend(pip, comparison, around, choices, plan)
    return plan


def _off(item: Item | None) -> bool:
    return item is not None and item.status != "match"


def _obstacle(item: Item) -> str:
    has = item.found or item.note or "nothing of it"
    return f"{item.component} must be {item.wanted}, and the endpoint has {has}: use an image that has it"


def _step(kind: Kind, argv: tuple[str, ...], timeout_s: float, **more: Any) -> Step:
    given = [f"{name}={value}" for name, value in more.get("env", {}).items()]
    stdin = f" <<< {shlex.quote(more['stdin'].rstrip())}" if more.get("stdin") else ""
    return Step(kind=kind, command=shlex.join([*given, *argv]) + stdin, argv=argv, timeout_s=timeout_s, **more)


def _needed_wheels(comparison: Comparison) -> list[Wheel]:
    return [wheel for wheel in comparison.profile.wheels if _off(comparison.item(wheel.package))]


def _wheel_path(wheel: Wheel, around: Surroundings) -> str:
    return f"{around.wheel_dir}/{wheel.sha256}/{wheel.file}" if wheel.remote else wheel.url


def _wheel_steps(pip: tuple[str, ...], comparison: Comparison, around: Surroundings) -> list[Step]:
    """Fetch the named wheels and check their hashes; the directory's name is the hash, so no two are mixed up."""
    steps: list[Step] = []
    wheels = _needed_wheels(comparison)
    for wheel in wheels:
        if wheel.remote:
            path = _wheel_path(wheel, around)
            words = ("download", "--no-input", "--disable-pip-version-check", "--no-deps", "--dest")
            source = f"{wheel.url}#sha256={wheel.sha256}"
            steps.append(_step("fetch", (*pip, *words, path.rpartition("/")[0], source), FETCH_S, paths=(path,)))
    if wheels:
        lines = "".join(f"{wheel.sha256}  {_wheel_path(wheel, around)}\n" for wheel in wheels)
        steps.append(_step("check", ("sha256sum", "--check", "--strict"), CHECK_S, stdin=lines))
    return steps


def _install_steps(
    pip: tuple[str, ...], comparison: Comparison, around: Surroundings, choices: Choices, plan: Plan
) -> list[Step]:
    """Install the pins in one command, so that pip holds all of them; then vLLM from its tree where it needs that."""
    profile = comparison.profile
    off = {name for name in profile.packages if _off(comparison.item(name))}
    from_tree = {"vllm"} if "vllm" in off and _built_from_tree(profile, choices) else set[str]()
    steps: list[Step] = []
    if off - from_tree:
        flags = ("install", "--no-input", "--disable-pip-version-check", *_index_flags(choices))
        # A vLLM without kernels is in no index, so it is not asked for there, not even to hold it.
        empty = "vllm" in profile.packages and is_empty_build(profile.packages["vllm"])
        left_out = from_tree or ({"vllm"} if empty and "vllm" not in off else set[str]())
        steps.append(_step("install", (*pip, *flags, *_requirements(comparison, around, left_out)), INSTALL_S))
    if from_tree:
        steps += _vllm_from_tree(pip, profile.packages["vllm"], around.vllm_tree, plan)
    return steps


def _index_flags(choices: Choices) -> tuple[str, ...]:
    links = tuple(word for place in choices.find_links for word in ("--find-links", place))
    return (*(("--no-index",) if choices.offline else ()), *links)


def _requirements(comparison: Comparison, around: Surroundings, left_out: set[str]) -> tuple[str, ...]:
    """Return all other pins, also of what is there already, so that pip does not change it for another's sake."""
    paths = {wheel.package: _wheel_path(wheel, around) for wheel in _needed_wheels(comparison)}
    pins = comparison.profile.packages.items()
    return tuple(paths.get(name, f"{name}=={version}") for name, version in pins if name not in left_out)


def is_empty_build(version: str) -> bool:
    """Whether this is a vLLM without kernels of its own, which is built from a source tree."""
    return split_version(version)[1] == "empty"


def _built_from_tree(profile: RuntimeProfile, choices: Choices) -> bool:
    named = any(wheel.package == "vllm" for wheel in profile.wheels)
    return is_empty_build(profile.packages["vllm"]) and not named and not choices.offline


def _vllm_from_tree(pip: tuple[str, ...], version: str, tree: VllmTree | None, plan: Plan) -> list[Step]:
    if tree is None or tree.commit is None:
        where = f" at {tree.path}" if tree else ""
        plan.obstacles.append(f"vllm {version} is built from a git tree, and there is none{where}")
        return []
    if tree.tag_commit != tree.commit:
        place = f"({tree.tag_commit[:12]})" if tree.tag_commit else "(which it does not have)"
        plan.obstacles.append(f"{tree.path} stands at {tree.commit[:12]} and not at {tree.tag} {place}: check it out")
    return [_step("build", (*pip, *_EDITABLE, tree.path), BUILD_S, env=EMPTY_ENV)]


_EDITABLE = (
    *("install", "--no-input", "--disable-pip-version-check", "--verbose"),
    *("--no-build-isolation", "--no-deps", "--editable"),
)


def _build_vllm_ascend(
    pip: tuple[str, ...], comparison: Comparison, around: Surroundings, choices: Choices, plan: Plan
) -> None:
    """Remove what the last build left and build anew: a changed torch or CANN makes the old one worthless."""
    wanted = comparison.profile.vllm_ascend
    if wanted is None:
        return
    built = not _off(comparison.item("vllm-ascend")) and not _off(comparison.item(TREE))
    if built and not plan.steps and not choices.rebuild:
        return
    tree = around.tree
    if tree is None or isinstance(tree, str):
        plan.obstacles.append(tree or "there is no source tree of vllm-ascend")
        return
    plan.tree = tree
    repo = str(tree["repo"])
    remotes = choices.remotes or wanted.remotes
    if expected_remote(tree["remotes"], remotes) is None:
        found = ", ".join(sorted(map(canonical, tree["remotes"].values()))) or "no remote"
        plan.obstacles.append(f"{repo} has {found} and not {' or '.join(remotes)}: it is not the tree that is meant")
    if tree["commit"] != wanted.commit:
        plan.obstacles.append(f"{repo} stands at {tree['commit'][:12]} and not at {wanted.commit[:12]}: check it out")
    plan.steps += clean_steps(tree)
    plan.steps.append(_step("build", (*pip, *_EDITABLE, repo), BUILD_S))


def clean_steps(tree: Facts) -> list[Step]:
    """Return the command that removes the artifacts, by name. git itself keeps it from touching a tracked file."""
    repo = str(tree["repo"])
    names = [str(artifact["path"]) for artifact in tree["artifacts"]]
    if not names:
        return []
    config = ("-c", f"safe.directory={repo}", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    argv = ("git", "-C", repo, *config, "--literal-pathspecs", "clean", "-ffdx", "--", *names)
    return [_step("clean", argv, CHECK_S, paths=tuple(f"{repo}/{name}" for name in names))]
