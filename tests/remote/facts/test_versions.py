"""Version files and package metadata are read as vendors write them; absent and unreadable are told apart."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vaws_mcp.worker.engine.cann import cann
from vaws_mcp.worker.engine.facts_context import packages
from vaws_mcp.worker.facts.versions import (
    parse_distribution,
    parse_git_status,
    parse_metadata_version,
    version_in,
)

TOOLKIT = """package_name=Ascend-cann-toolkit
version=8.5.0
innerversion=V100R001C25SPC001B212
compatible_version=[V100R001C15],[V100R001C18]
arch=aarch64
path=/usr/local/Ascend/cann-8.5.0/aarch64-linux
"""
DRIVER = """Version=25.2.0
ascendhal_version=7.35.23
package_version=25.2.0
Innerversion=V100R001C20SPC007B257
"""
NNAL = """    Ascend-cann-atb : 8.2.RC1
    Ascend-cann-atb Version : 8.2.RC1.B150
    Platform : aarch64
    commit id : 0123456789012345678901234567890123456789
"""
KERNELS = """Version=8.3.T5.0.B028
version_dir=8.3.RC1
timestamp=20250807_092944934
required_package_amct_acl_version=">=7.6, <=8.3"
"""
SAMPLES = Path(__file__).parents[4] / "shared" / "fixtures" / "container"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (TOOLKIT, "8.5.0"),
        (DRIVER, "25.2.0"),
        (NNAL, "8.2.RC1"),
        (KERNELS, "8.3.RC1"),
        ("arch=x86_64\n", None),
        ("", None),
        ("version=\n", None),
    ],
)
def test_each_form_of_version_file_is_read(text: str, version: str | None) -> None:
    assert version_in(text) == version


def test_recorded_version_files_are_read() -> None:
    if not SAMPLES.is_dir():
        pytest.skip("the recorded samples are not here")
    found = {path.name: version_in(path.read_text()) for path in SAMPLES.glob("*.info")}
    assert found == {"ascend_toolkit_install.info": "8.5.0", "driver_version.info": "25.2.0"}


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("torch-2.10.0+cpu.dist-info", ("torch", "2.10.0+cpu")),
        ("torch_npu-2.10.0.post4.dist-info", ("torch-npu", "2.10.0.post4")),
        ("vllm-0.27.1+empty.dist-info", ("vllm", "0.27.1+empty")),
        ("vllm_ascend-0.1.dev1+gabc-py3.12.egg-info", ("vllm-ascend", "0.1.dev1+gabc")),
        ("vllm", None),
        ("notes.txt", None),
    ],
)
def test_names_of_metadata_directories_are_read(entry: str, found: tuple[str, str] | None) -> None:
    assert parse_distribution(entry) == found


def test_only_the_headers_of_metadata_count() -> None:
    assert parse_metadata_version("Metadata-Version: 2.1\nName: x\nVersion: 1.2\n\nVersion: 9\n") == "1.2"
    assert parse_metadata_version("Name: x\n\nVersion: 9\n") is None


def test_git_status_is_read() -> None:
    clean = parse_git_status("# branch.oid abc\n# branch.head main\n# branch.upstream o/main\n# branch.ab +0 -0\n")
    assert clean == ("abc", "main", 0)
    dirty = parse_git_status("# branch.oid abc\n# branch.head (detached)\n1 .M N... a\n? new\nu UU b\n2 R. c\n")
    assert dirty == ("abc", None, 4)
    assert parse_git_status("# branch.oid (initial)\n# branch.head main\n").commit is None


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_versions_of_an_image_are_found(tmp_path: Path) -> None:
    ascend = tmp_path / "usr/local/Ascend"
    write(ascend / "cann-8.5.0/aarch64-linux/ascend_toolkit_install.info", TOOLKIT)
    write(ascend / "cann-8.5.0/aarch64-linux/ascend_ops_install.info", "version=8.5.1\n")
    write(ascend / "driver/version.info", DRIVER)
    write(ascend / "nnal/atb/latest/version.info", NNAL)
    found = {name: value and value["version"] for name, value in cann({}, str(tmp_path)).items()}
    assert found == {"driver": "25.2.0", "toolkit": "8.5.0", "operators": "8.5.1", "nnal": "8.2.RC1"}


def test_older_images_keep_the_operators_elsewhere(tmp_path: Path) -> None:
    latest = tmp_path / "usr/local/Ascend/ascend-toolkit/latest"
    write(latest / "opp_kernel/version.info", KERNELS)
    write(tmp_path / "etc/ascend_install.info", "Driver_Install_Path_Param=/opt/ascend\n")
    write(tmp_path / "opt/ascend/driver/version.info", DRIVER)
    found = cann({}, str(tmp_path))
    assert found["operators"] == {"version": "8.3.RC1", "path": str(latest / "opp_kernel/version.info")}
    assert found["driver"] == {"version": "25.2.0", "path": str(tmp_path / "opt/ascend/driver/version.info")}
    assert found["toolkit"] is None


def test_the_environment_of_commands_says_which_cann(tmp_path: Path) -> None:
    home = tmp_path / "cann [9]"
    write(home / "x86_64-linux/ascend_toolkit_install.info", "version=9.1.0\n")
    write(tmp_path / "atb/9.1/version.info", "Ascend-cann-atb : 9.1.0\n")
    found = cann({"ASCEND_HOME_PATH": str(home), "ATB_HOME_PATH": str(tmp_path / "atb/9.1/atb/cxx_abi_1")})
    assert found["toolkit"] == {
        "version": "9.1.0",
        "path": str(home / "x86_64-linux/ascend_toolkit_install.info"),
    }
    assert (found["nnal"] or {})["version"] == "9.1.0"


def test_an_unreadable_version_is_not_an_absent_one(tmp_path: Path) -> None:
    ascend = tmp_path / "usr/local/Ascend"
    write(ascend / "driver/version.info", "nothing here\n")
    (ascend / "nnal/atb/latest/version.info").mkdir(parents=True)
    found = cann({}, str(tmp_path))
    assert "states no version" in (found["driver"] or {})["error"]
    assert "version.info" in (found["nnal"] or {})["error"]
    assert found["toolkit"] is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_closed_directory_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "usr/local/Ascend"
    closed.mkdir(parents=True)
    closed.chmod(0)
    assert "Permission denied" in (cann({}, str(tmp_path))["driver"] or {})["error"]
    closed.chmod(0o755)


def install(folder: Path, name: str, version: str, **files: str) -> Path:
    path = folder / f"{name}-{version}.dist-info"
    write(path / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file, text in files.items():
        (path / file).write_text(text)
    return path


def test_packages_are_found_without_an_import(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    torch = install(first, "torch", "2.10.0")
    install(second, "torch", "1.0")
    vllm = install(second, "vllm", "0.27.1+empty")
    url = {"dir_info": {"editable": True}, "url": "file:///vllm-workspace/vllm"}
    (vllm / "direct_url.json").write_text(json.dumps(url))
    (first / "vllm").mkdir()
    (first / "vllm" / "__init__.py").write_text("raise SystemExit('imported')")
    found = packages([str(tmp_path / "absent"), str(first), str(second)])
    assert found["torch"] == {"version": "2.10.0", "path": str(torch), "editable": None}
    assert found["vllm"] == {"version": "0.27.1+empty", "path": str(vllm), "editable": "/vllm-workspace/vllm"}
    assert found["torch-npu"] is None


def test_torn_and_doubled_packages_are_errors(tmp_path: Path) -> None:
    (tmp_path / "torch-2.0.dist-info").mkdir()
    install(tmp_path, "vllm", "0.1")
    install(tmp_path, "vllm", "0.2")
    found = packages([str(tmp_path)])
    assert "METADATA" in (found["torch"] or {})["error"]
    assert "several versions" in (found["vllm"] or {})["error"]
