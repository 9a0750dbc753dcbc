"""What a person sees of a probe."""

from __future__ import annotations

from dataclasses import replace

import pytest
from npu_texts import chips, info

from vaws_mcp.cli.show import show
from vaws_mcp.npu.view import for_people, of_report, said
from vaws_mcp.worker.facts.npu.parse import parse


def test_a_person_sees_one_row_for_each_device(capsys: pytest.CaptureFixture[str]) -> None:
    devices = chips("classic")
    devices[1] = replace(devices[1], used=45000, processes=((4242, "VLLMWorker_TP", 40000, None),))
    devices[2] = replace(devices[2], health="Alarm")
    fields = of_report(parse(info("classic", devices)))
    answer = {"schema": "vaws.npu_probe.v1", "outcome": "success", "summary": said("here", fields), **fields}
    rows = for_people(answer)["devices"]
    assert [(row["state"], row["why"]) for row in rows] == [
        ("free", None),
        ("occupied", "4242 VLLMWorker_TP"),
        ("unhealthy", "Its health is Alarm."),
    ]
    assert "logic" not in rows[0]
    show(answer)
    shown = capsys.readouterr().out
    assert "3 devices: 1 free (0000:81:00.0), 1 busy, 1 unhealthy" in shown
    assert shown.count("910B3") == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\tCard Count : 1\n\n\tNPU ID : 0\n\tChip Count : 2\n", "list of 1 cards"),
        ("\tNPU ID : 0\n\tChip Count : 1\n\n\tNo process in device.\n\tChip ID : 0\n", "proc-mem of 1 chips"),
        ("\tHealth : Alarm\n\tError Code : 80E01801\n", "health Alarm, error codes: 80E01801"),
    ],
)
def test_the_summary_says_what_the_text_is(text: str, words: str) -> None:
    assert words in said("here", of_report(parse(text)))
