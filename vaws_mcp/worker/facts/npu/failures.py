"""What npu-smi says instead of an answer, and what to do about it.

Source: the codes of DCMI; npu-smi ends with the lowest eight bits of the negative code.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple


class Trouble(NamedTuple):
    """A failure of npu-smi. ``exit_code`` is the status it ends with, None where that differs or is not known."""

    code: str
    message: str
    exit_code: Optional[int] = None

    @property
    def hint(self) -> str:
        """What to do next."""
        return HINTS.get(self.code, HINTS["dcmi_failed"])


HINTS: Dict[str, str] = {
    "driver_unavailable": "Start the container privileged or with /dev/davinci_manager, /dev/devmm_svm and "
    "/dev/hisi_hdc, as root or in the group HwHiAiUser; on the host, check that the driver is loaded.",
    "device_occupied": "Another container holds the devices. Run npu-smi on the host to see who, or source the "
    "environment scripts and try again.",
    "device_not_exist": "Look at `npu-smi info -l`: -i takes the NPU ID and -c the chip ID.",
    "invalid_argument": "Look at `npu-smi info -l`: -i takes the NPU ID and -c the chip ID.",
    "not_permitted": "Run as root or as a user in the group HwHiAiUser.",
    "not_supported": "This product or driver has no such query; use plain `npu-smi info`.",
    "not_supported_in_container": "Ask the host: this query is not offered inside containers.",
    "driver_timeout": "The driver did not answer. Try again; if it lasts, look at `dmesg` and reset the card.",
    "device_not_ready": "Wait until the card has started, then probe again.",
    "npu_smi_missing": "Mount npu-smi from the host (/usr/local/bin, /usr/local/sbin or "
    "/usr/local/Ascend/driver/tools) or probe the host.",
    "npu_smi_permission": "Make npu-smi executable for this user, or run as root.",
    "npu_smi_wrong_arch": "Mount the npu-smi of this host's architecture.",
    "driver_libs_missing": "Add the lib64/driver and lib64/common directories of /usr/local/Ascend/driver to "
    "LD_LIBRARY_PATH and mount them into the container.",
    "npu_smi_hang": "The driver does not answer. Try again on the host; if it lasts, look at `dmesg` there.",
    "no_npu": "Use a machine with NPUs, or give the container its devices.",
    "usage": "This version of npu-smi takes other options; save plain `npu-smi info`.",
    "query_failed": "The product does not offer this query; use plain `npu-smi info`.",
    "truncated": "Save the whole output, up to the end of the process table, and parse it again.",
    "unrecognised": "Give the unchanged output of npu-smi info, -m, -l or -t, or say --kind.",
    "empty": "Look at what npu-smi writes to standard error (2>&1); where it writes nothing, look at the driver.",
    "dcmi_failed": "Run `npu-smi info` on the host; if it fails there too, check the driver (`dmesg`, driver logs).",
}

# By the number that DCMI returns.
_DCMI: Dict[int, Tuple[str, str]] = {
    8001: ("invalid_argument", "DCMI refuses a parameter"),
    8002: ("not_permitted", "DCMI does not permit this to the user"),
    8005: ("driver_unavailable", "the driver cannot be used from here"),
    8006: ("driver_timeout", "the driver did not answer in time"),
    8007: ("device_not_exist", "the device id is not valid"),
    8008: ("device_not_exist", "the device does not exist"),
    8012: ("device_not_ready", "the device is not ready"),
    8013: ("not_supported_in_container", "this is not supported in a container"),
    8020: ("device_occupied", "the devices are in use by another container"),
    8255: ("not_supported", "the product does not support this"),
}

_RETURNED = re.compile(r"\bret(?:urn code)?\s*(?:is|=|:)?\s*-(\d{4,5})\b", re.I)
_WORDS: List[Tuple[str, str, str, Optional[int]]] = [
    (
        r"error while loading shared libraries",
        "driver_libs_missing",
        "npu-smi does not find the driver's libraries",
        127,
    ),
    (r"exec format error|cannot execute binary", "npu_smi_wrong_arch", "npu-smi is built for another machine", 126),
    (r"npu-smi['\"]?:? is a directory", "npu_smi_missing", "npu-smi is a directory here", 126),
    (
        r"npu-smi.*(?:not found|no such file)",
        "npu_smi_missing",
        "npu-smi is not installed here",
        127,
    ),
    (r"npu-smi.*permission denied", "npu_smi_permission", "npu-smi may not be executed by this user", 126),
    (r"there is no npu card", "no_npu", "this machine has no NPU", None),
    (r"device does not exist", "device_not_exist", "the device does not exist", 184),
    (r"command or option is not found|error parameter of", "usage", "npu-smi does not know these options", None),
    (r"failed to query", "query_failed", "npu-smi could not answer the query", None),
    (r"does not support querying", "not_supported", "the product does not support this query", None),
    (r"dcmi mod(?:ule|el) initiali[sz]ed? failed", "driver_unavailable", "the driver cannot be used from here", None),
]
_PATTERNS = [(re.compile(pattern, re.I), code, message, status) for pattern, code, message, status in _WORDS]


def find(lines: List[str]) -> Optional[Trouble]:
    """Return the failure that these lines tell of, or None. A number of DCMI says more than the words around it."""
    for line in lines:
        match = _RETURNED.search(line)
        if match:
            return from_dcmi(int(match.group(1)))
    for line in lines:
        for pattern, code, message, status in _PATTERNS:
            if pattern.search(line):
                return Trouble(code, message, status)
    return None


def from_dcmi(number: int) -> Trouble:
    """Return the failure for a return code of DCMI, given without its sign."""
    code, message = _DCMI.get(number, ("dcmi_failed", "DCMI failed"))
    return Trouble(code, f"{message} (dcmi -{number})", -number & 255)
