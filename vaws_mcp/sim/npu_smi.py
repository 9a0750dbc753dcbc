"""The simulated ``npu-smi``: prints device tables in the layouts of Atlas A2 (classic) and A3 (two dies a card).

The text is written here from the documented layouts and shares no code with any parser.
"""

import sys
from collections.abc import Callable, Iterable

from vaws_mcp.sim.devices import HBM_MB, Device, list_devices
from vaws_mcp.sim.settings import Settings, read_settings

VERSION = {"a2": "24.1.rc3", "a3": "25.5.0"}
CHIP_NAME = {"a2": "910B3", "a3": "Ascend910"}
MAX_ROWS_PER_CHIP = 8
FULL = "+" + "-" * 96 + "+"
CELLS = "+" + "-" * 27 + "+" + "-" * 15 + "+" + "-" * 52 + "+"
HEAVY = "+" + "=" * 27 + "+" + "=" * 15 + "+" + "=" * 52 + "+"
PROCESS_CELLS = "+" + "-" * 27 + "+" + "-" * 15 + "+" + "-" * 52 + "+"
INFO_USAGE = "Usage: npu-smi info -t <type> -i <id>"


def _chip_rows(device: Device, layout: str) -> list[str]:
    power = "-" if device.chip else f"{(165.0 if layout == 'a3' else 90.0) + device.npu * 1.2:.1f}"
    temp = (37 if layout == "a3" else 34) + device.npu
    phy = str(device.logic) if layout == "a3" else ""
    used = f"{device.used_mb:<5d}/ {HBM_MB}"
    return [
        f"| {device.npu:<6d}{CHIP_NAME[layout]:<20s}| {'OK':<14s}| {power:<12s}{temp:<18d}{'0    / 0':<21s}|",
        f"| {device.chip:<6d}{phy:<20s}| {device.bus_id:<14s}| {0:<12d}{'0    / 0':<18s}{used:<21s}|",
    ]


def _process_rows(devices: Iterable[Device]) -> list[str]:
    rows: list[str] = []
    for device in devices:
        for holder in device.holders[:MAX_ROWS_PER_CHIP]:
            rows.append(
                f"| {device.npu:<8d}{device.chip:<18d}| {holder.pid:<14d}| {holder.name:<25s}| {holder.memory_mb:<24d}|"
            )
    return rows


def info_table(devices: list[Device], layout: str) -> list[str]:
    """Return the lines of plain ``npu-smi info``."""
    version = VERSION[layout]
    lines = [FULL, f"| npu-smi {version:<25s}Version: {version:<53s}|", CELLS]
    lines.append(f"| {'NPU   Name':<26s}| {'Health':<14s}| Power(W)    Temp(C)           Hugepages-Usage(page)|")
    second = "Chip  Phy-ID" if layout == "a3" else "Chip"
    lines.append(f"| {second:<26s}| {'Bus-Id':<14s}| AICore(%)   Memory-Usage(MB)  {'HBM-Usage(MB)':<21s}|")
    lines.append(HEAVY)
    for index, device in enumerate(devices):
        lines += _chip_rows(device, layout)
        last_chip = index + 1 == len(devices) or devices[index + 1].npu != device.npu
        lines.append(HEAVY if last_chip else FULL)
    lines += [CELLS, f"| {'NPU     Chip':<26s}| {'Process id':<14s}| {'Process name':<25s}| Process memory(MB)      |"]
    lines.append(HEAVY)
    for npu in sorted({device.npu for device in devices}):
        rows = _process_rows(device for device in devices if device.npu == npu)
        lines += rows or [f"| {f'No running processes found in NPU {npu}':<95s}|"]
        lines.append(HEAVY)
    return lines


def id_map(devices: list[Device], layout: str) -> list[str]:
    """Return the lines of ``npu-smi info -m``."""
    head = ["NPU ID", "Chip ID", "Chip Logic ID"] + (["Chip Phy-ID"] if layout == "a3" else []) + ["Chip Name"]
    rows = [head]
    for index, device in enumerate(devices):
        if layout == "a2":
            rows.append([str(device.npu), str(device.chip), str(device.logic), f"Ascend {CHIP_NAME[layout]}"])
            continue
        logic = str(device.logic)
        rows.append([str(device.npu), str(device.chip), logic, logic, CHIP_NAME[layout]])
        if index + 1 == len(devices) or devices[index + 1].npu != device.npu:
            rows.append([str(device.npu), str(device.chip + 1), "-", "-", "Mcu"])
    # The last column is padded in the heading only.
    head[-1] = f"{head[-1]:<30s}"
    return ["\t" + " ".join([f"{cell:<30s}" for cell in row[:-1]] + row[-1:]) for row in rows]


def _field(name: str, value: object) -> str:
    return f"\t{name:<31s}: {value}"


def card_list(devices: list[Device]) -> list[str]:
    """Return the lines of ``npu-smi info -l``."""
    npus = sorted({device.npu for device in devices})
    lines = [_field("Total Count", len(npus)), ""]
    for npu in npus:
        lines += [_field("NPU ID", npu), _field("Chip Count", sum(d.npu == npu for d in devices)), ""]
    return lines


def _health(device: Device) -> list[str]:
    del device
    return [_field("Health Status", "OK"), _field("Error Code", "NA"), _field("Error Information", "NA")]


def _usages(device: Device) -> list[str]:
    return [
        _field("DDR Capacity(MB)", 0),
        _field("DDR Usage Rate(%)", 0),
        _field("DDR Hugepages Total(page)", 0),
        _field("DDR Hugepages Usage Rate(%)", 0),
        _field("HBM Capacity(MB)", HBM_MB),
        _field("HBM Usage Rate(%)", device.used_mb * 100 // HBM_MB),
        _field("Aicore Usage Rate(%)", 0),
        _field("Aivector Usage Rate(%)", 0),
        _field("Aicpu Usage Rate(%)", 0),
        _field("Ctrlcpu Usage Rate(%)", 1),
        _field("DDR Bandwidth Usage Rate(%)", 0),
        _field("HBM Bandwidth Usage Rate(%)", 0),
        _field("NPU Utilization(%)", 0),
        _field("Aicube Usage Rate(%)", 0),
    ]


def _proc_mem(device: Device) -> list[str]:
    if not device.holders:
        return ["\tNo process in device."]
    return [
        f"\tProcess id:{h.pid:<7d} Process name:{h.name:<17s} Process memory(MB):{h.memory_mb}" for h in device.holders
    ]


def _memory(device: Device) -> list[str]:
    return [
        _field("DDR Capacity(MB)", 0),
        _field("DDR Clock Speed(MHz)", 0),
        _field("HBM Capacity(MB)", HBM_MB),
        _field("HBM Clock Speed(MHz)", 1600),
        _field("HBM Temperature(C)", 35 + device.npu),
        _field("HBM Manufacturer ID", "0x56"),
    ]


BLOCKS: dict[str, Callable[[Device], list[str]]] = {
    "health": _health,
    "usages": _usages,
    "proc-mem": _proc_mem,
    "memory": _memory,
}


def typed(devices: list[Device], kind: str, npu: int, chip: int | None) -> list[str] | None:
    """Return the lines of ``npu-smi info -t KIND -i NPU [-c CHIP]``, or None when there is no such device."""
    chosen = [d for d in devices if d.npu == npu and chip in (None, d.chip)]
    if not chosen:
        return None
    if chip is not None:
        return BLOCKS[kind](chosen[0])
    lines = [_field("NPU ID", npu), _field("Chip Count", len(chosen)), ""]
    for device in chosen:
        lines += [*BLOCKS[kind](device), _field("Chip ID", device.chip), ""]
    return lines


def _options(words: list[str]) -> dict[str, str] | None:
    if len(words) % 2 or any(flag not in ("-t", "-i", "-c") for flag in words[::2]):
        return None
    return dict(zip(words[::2], words[1::2], strict=True))


def _typed_answer(devices: list[Device], options: dict[str, str]) -> tuple[int, list[str]]:
    kind, npu, chip = options.get("-t", ""), options.get("-i", ""), options.get("-c")
    if kind not in BLOCKS:
        return 191, ["Error parameter of -t", INFO_USAGE]
    if not npu.isdigit() or not (chip is None or chip.isdigit()):
        return 191, [f"Error parameter of {'-c' if npu.isdigit() else '-i'}", INFO_USAGE]
    lines = typed(devices, kind, int(npu), None if chip is None else int(chip))
    return (184, ["Failed to execute npu-smi info. ret is -8008."]) if lines is None else (0, lines)


def answer(settings: Settings, words: list[str]) -> tuple[int, list[str]]:
    """Return exit status and lines for one command line (without the program's name)."""
    if words in (["-v"], ["--version"]):
        return 0, [f"npu-smi version: {VERSION[settings.layout]}"]
    options = _options(words[1:])
    if words[:1] != ["info"] or (options is None and words[1:] not in (["-m"], ["-l"])):
        return 255, ["Command or option is not found.", "Usage: npu-smi <Command|-h|-v> [Options...]"]
    devices = list_devices(settings.root, settings.devices, settings.layout)
    if words[1:] == ["-m"]:
        return 0, id_map(devices, settings.layout)
    if words[1:] == ["-l"]:
        return 0, card_list(devices)
    if options:
        return _typed_answer(devices, options)
    return 0, info_table(devices, settings.layout)


def main() -> int:
    """Run the program with the words of the command line."""
    status, lines = answer(read_settings(), sys.argv[1:])
    sys.stdout.write("\n".join(lines) + "\n")
    return status
