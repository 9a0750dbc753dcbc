"""The text of the simulated npu-smi, compared with recorded outputs."""

import re
from pathlib import Path

import pytest
from sim_box import Box, fixture_text

from vaws_mcp.sim.npu_smi import answer
from vaws_mcp.sim.settings import Settings


def settings(root: Path, layout: str, devices: int) -> Settings:
    return Settings(str(root), devices, layout, 0, 0, 0, 0, 1.0, 20.0, 1, 1)


def text(root: Path, layout: str, devices: int, *words: str) -> str:
    status, lines = answer(settings(root, layout, devices), list(words))
    assert status == 0, lines
    return "\n".join(lines) + "\n"


def shape(table: str) -> list[str]:
    """The table with every number replaced by as many zeros, version and column positions kept."""
    return [re.sub(r"\d", "0", line) for line in table.splitlines() if "npu-smi" not in line]


def test_an_idle_a2_table_is_laid_out_as_recorded(tmp_path: Path):
    recorded = fixture_text("npu_smi/info_a2_idle_25.2.0.txt")
    assert shape(text(tmp_path, "a2", 8, "info")) == shape(recorded)


def test_an_idle_a3_table_is_laid_out_as_recorded(tmp_path: Path):
    recorded = fixture_text("npu_smi/info_a3_idle_25.2.3.txt")
    assert shape(text(tmp_path, "a3", 16, "info")) == shape(recorded)


def test_bus_ids_and_the_version_line_are_as_recorded(tmp_path: Path):
    recorded = fixture_text("npu_smi/info_a2_busy_24.1.rc3.txt")
    ours = text(tmp_path, "a2", 8, "info")
    assert ours.splitlines()[1] == recorded.splitlines()[1]
    assert re.findall(r"0000:\w\w:00.0", ours) == re.findall(r"0000:\w\w:00.0", recorded)


@pytest.mark.parametrize(
    ("name", "layout", "devices", "words"),
    [
        ("map_a2", "a2", 8, ["info", "-m"]),
        ("map_a3", "a3", 4, ["info", "-m"]),
        ("list_a2", "a2", 8, ["info", "-l"]),
        ("health_ok", "a2", 8, ["info", "-t", "health", "-i", "0", "-c", "0"]),
        ("memory_a2", "a2", 8, ["info", "-t", "memory", "-i", "0"]),
        ("procmem_idle", "a2", 8, ["info", "-t", "proc-mem", "-i", "0"]),
    ],
)
def test_other_subcommands_print_exactly_what_was_recorded(
    tmp_path: Path, name: str, layout: str, devices: int, words: list[str]
):
    assert text(tmp_path, layout, devices, *words) == fixture_text(f"npu_smi/{name}.txt")


def test_usages_have_the_recorded_fields(tmp_path: Path):
    def keys(table: str) -> list[str]:
        return [line.split(":")[0] for line in table.splitlines()]

    ours = text(tmp_path, "a2", 8, "info", "-t", "usages", "-i", "0")
    assert keys(ours) == keys(fixture_text("npu_smi/usages_a2.txt"))


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["info", "-t", "nope", "-i", "0"], 191, "Error parameter of -t"),
        (["info", "-t", "health", "-i", "x"], 191, "Error parameter of -i"),
        (["info", "-t", "health", "-i", "9"], 184, "Failed to execute npu-smi info. ret is -8008."),
        (["info", "-t", "health", "-i", "0", "-c", "1"], 184, "Failed to execute npu-smi info. ret is -8008."),
        (["infos"], 255, "Command or option is not found."),
        ([], 255, "Command or option is not found."),
        (["info", "-t"], 255, "Command or option is not found."),
    ],
)
def test_wrong_words_are_refused_as_by_the_real_program(tmp_path: Path, words: list[str], status: int, line: str):
    found, lines = answer(settings(tmp_path, "a2", 8), words)
    assert (found, lines[0]) == (status, line)


def test_a_served_model_shows_its_processes_and_memory_and_frees_them(box: Box):
    def held() -> list[list[str]]:
        lines = box.run("npu-smi", "info").stdout.split("Process id")[1].splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
        return [row for row in rows if len(row) == 4]

    with box.serve("-tp", "2", ASCEND_RT_VISIBLE_DEVICES="3,5") as served:
        workers = box.pids("VLLM::Worker_TP0") + box.pids("VLLM::Worker_TP1")
        rows = held()
        assert [row[0].split() for row in rows] == [["3", "0"], ["5", "0"]]
        assert [int(row[1]) for row in rows] == workers
        assert {row[2] for row in rows} == {"VLLMWorker_TP"}
        assert f"{3403 + 55482}/ 65536" in box.run("npu-smi", "info").stdout
        memory = box.run("npu-smi", "info", "-t", "proc-mem", "-i", "3").stdout
        assert f"Process id:{workers[0]:<7d} Process name:VLLMWorker_TP" in memory
        served.stop()
        assert held() == []


def test_a_killed_holder_frees_its_device(box: Box):
    with box.serve() as served:
        served.process.kill()
        (worker,) = box.pids("VLLM::Worker_TP0")
        assert worker
    assert "No running processes found in NPU 0" in box.run("npu-smi", "info").stdout
