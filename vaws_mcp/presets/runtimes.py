"""Runtime profiles: the versions that belong together, as ``presets/runtimes/<name>.json``."""

import posixpath
import re
from typing import Annotated, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from vaws_mcp.presets.loading import Preset, load_preset, shipped_names

KIND = "runtimes"

# What goes into an argument of pip: a word that cannot be an option, a specifier or a path.
Version = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+!_-]*$", max_length=80)]
PackageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Line = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]+$")]

_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[A-Za-z0-9_.!+]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")


class Part(BaseModel):
    """A part of a profile; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cann(Part):
    """Versions of CANN's parts; what is null is not compared."""

    toolkit: Version | None = None
    operators: Version | None = None
    nnal: Version | None = None


class VllmAscend(Part):
    """The source of vllm-ascend: a full commit, and the remotes one of which its tree must have."""

    commit: Commit
    remotes: tuple[Line, ...] = Field(min_length=1)


class Wheel(Part):
    """A wheel that is fetched instead of left to an index: an https URL or an absolute path on the endpoint."""

    url: Line
    sha256: Sha256

    @model_validator(mode="after")
    def _a_wheel(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme not in ("https", "") or not parts.path.startswith("/") or parts.query or parts.fragment:
            raise ValueError("url must be https://…/NAME.whl or an absolute path, without query and fragment")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url must not contain a user name or password")
        if not _WHEEL.fullmatch(self.file):
            raise ValueError(f"{self.file!r} is not the name of a wheel")
        return self

    @property
    def file(self) -> str:
        """Name of the file; in a URL its plus sign may be written as %2B."""
        path = urlsplit(self.url).path
        return unquote(posixpath.basename(path)) if self.remote else posixpath.basename(path)

    @property
    def package(self) -> str:
        """Name of the package, as the index compares it."""
        return re.sub(r"[-_.]+", "-", self._part("name")).lower()

    @property
    def version(self) -> str:
        """Version of the package."""
        return self._part("version")

    def _part(self, name: str) -> str:
        match = _WHEEL.fullmatch(self.file)
        assert match is not None  # noqa: S101 - the validator has looked
        return match[name]

    @property
    def remote(self) -> bool:
        """Whether it has to be fetched."""
        return bool(urlsplit(self.url).scheme)


class RuntimeProfile(Preset):
    """Versions that were built and tested together. What a profile does not name is not compared."""

    schema_: Literal["vaws.runtime-profile.v1"] = Field(default="vaws.runtime-profile.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    name: Line
    description: str = ""
    python: Version | None = None
    driver: Version | None = None
    cann: Cann = Cann()
    packages: dict[PackageName, Version] = Field(default_factory=dict)
    vllm_ascend: VllmAscend | None = None
    wheels: tuple[Wheel, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [wheel.package for wheel in self.wheels]
        stray = sorted(set(names) - set(self.packages))
        if stray:
            raise ValueError(f"wheels of packages that the profile does not pin: {', '.join(stray)}")
        if len(set(names)) != len(names):
            raise ValueError("two wheels of one package")
        for wheel in self.wheels:
            if wheel.version.lower() != self.packages[wheel.package].lower():
                raise ValueError(f"{wheel.file} is not version {self.packages[wheel.package]}")
        if "vllm-ascend" in self.packages:
            raise ValueError("vllm-ascend is named by its commit (vllm_ascend), not by a version")
        if not (self.packages or self.vllm_ascend or self.python or self.driver or self.cann != Cann()):
            raise ValueError("a profile must name at least one version")
        return self


def load_profile(given: str) -> RuntimeProfile:
    """Return the profile that is shipped under a name, or the one in a file.

    Raises: Refused, see ``load_preset``.
    """
    return load_preset(KIND, given, RuntimeProfile)


def shipped_profiles() -> list[RuntimeProfile]:
    """Return all shipped profiles by name."""
    return [load_profile(name) for name in shipped_names(KIND)]
