"""What NVIDIA's own binding is asked, against a library that answers as NVIDIA's does; and DCGM's page."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.launch import dcgm
from gateway.launch.nvml import Nvml
from gateway.launch.reading import NoHardware, Reading
from tests.gateway.programs import REPOSITORY
from tests.launch.nvml import Card, machine

ASK = """
import json
from dataclasses import asdict
from gateway.launch.nvml import Nvml
nvml = Nvml()
first = nvml.read(["GPU-a", "1", "GPU-z"])
print(json.dumps([nvml.source, [asdict(g) for g in nvml.look()], [r.to_map() for r in first],
                  [r.to_map() for r in nvml.read(["GPU-a"])]]))
"""


def asked(env: dict[str, str]) -> Any:
    told = {**os.environ, "PYTHONPATH": str(REPOSITORY), **env}
    said = subprocess.run([sys.executable, "-c", ASK], env=told, stdout=subprocess.PIPE, check=True)
    return json.loads(said.stdout)


def test_gpus_are_shown_with_their_memory_processes_and_what_makes_them_unusable(tmp_path: Path) -> None:
    there = machine(tmp_path, Card("GPU-a"), Card("GPU-b", used_mib=40_000, pid=4242), Card("GPU-c", mig=1))
    source, gpus, _, _ = asked(there.env)
    assert source == "NVML, driver 575.1"
    assert [gpu["uuid"] for gpu in gpus] == ["GPU-a", "GPU-b", "GPU-c"]
    assert [gpu["processes"] for gpu in gpus] == [[], [4242], []]
    # the second version of the question does not count the driver's own 600 MiB
    assert [gpu["memory_used_bytes"] >> 20 for gpu in gpus] == [0, 40_000, 0]
    assert [gpu["unusable"] for gpu in gpus] == [None, None, "it is cut into instances (MIG)"]


def test_readings_tell_all_units_the_reasons_for_low_clocks_and_each_error_once(tmp_path: Path) -> None:
    there = machine(tmp_path, Card("GPU-a", reasons=0x1 | 0x4 | 0x40, xid=79), Card("GPU-b"))
    _, _, first, second = asked(there.env)
    assert [one["uuid"] for one in first] == ["GPU-a", "GPU-b"]  # by UUID or number; one is not there
    one = first[0]
    assert (one["utilisation"], one["power_w"], one["energy_mj"]) == (0.87, 412.0, 1000)
    assert (one["sm_clock_mhz"], one["memory_clock_mhz"], one["temperature_c"]) == (1980, 2619, 51)
    assert one["throttling"] == ["power_cap", "hw_thermal"]  # an idle GPU's low clock is none
    assert (one["xid"], second[0]["xid"]) == ([79], [])
    assert (first[1]["throttling"], first[1]["xid"]) == ([], [])


def test_a_machine_without_nvidias_library_says_so() -> None:
    with pytest.raises(NoHardware, match=r"^NVML: "):
        Nvml()


PAGE = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA H100 80GB HBM3"} 345
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 87
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 412.5
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a"} 319159391
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 100
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a"} 300
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 79
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b"} 0
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="0",UUID="GPU-a"} 4
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-c",GPU_I_ID="3",GPU_I_PROFILE="2g.20gb"} 50
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a"} 0.5
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a"} 0.25
"""


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-Inf", "-1", "1e308", "1.4e14", "9223372036854775792"])
def test_a_number_of_dcgm_that_can_be_none_is_left_out(number: str) -> None:
    names = [line.split("{")[0] for line in PAGE.splitlines() if line.startswith("DCGM_")]
    page = "".join(
        f'{name}{{gpu="0",UUID="GPU-a",modelName="H"}} {number}\n' for name in dict.fromkeys(names)
    )
    (one,) = dcgm.readings(page, [])
    known = {"uuid", "index", "name", "xid"} | ({"energy_mj"} if number == "1.4e14" else set())
    assert set(one.to_map()) == known and one.xid == ()


@pytest.mark.parametrize("named", [["GPU-a"], ["0"]])
def test_a_page_of_dcgm_is_read_by_uuid_or_number(named: list[str]) -> None:
    assert dcgm.readings(PAGE, named) == [
        Reading(
            uuid="GPU-a",
            index=0,
            name="NVIDIA H100 80GB HBM3",
            utilisation=0.87,
            memory_busy=0.5,
            tensor_busy=0.25,
            memory_used_bytes=100 << 20,
            memory_total_bytes=400 << 20,
            power_w=412.5,
            energy_mj=319159391,
            sm_clock_mhz=1980,
            throttling=("power_cap",),
            xid=(79,),
        )
    ]


def test_what_a_page_does_not_tell_is_missing_and_instances_of_a_gpu_are_left_out() -> None:
    one = dcgm.readings(PAGE, ["GPU-b"])[0]
    assert (one.utilisation, one.power_w, one.throttling, one.xid) == (None, None, None, ())
    assert [one.uuid for one in dcgm.readings(PAGE, [])] == ["GPU-a", "GPU-b"]
    with pytest.raises(ValueError, match="float"):
        dcgm.readings("this is { no page", [])
