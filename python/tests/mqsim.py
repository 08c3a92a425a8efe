"""Runs the same experiments in MQSim and in fonio: `python mqsim.py FOLDER`, with a built MQSim in the folder.

MQSim (Tavakkol et al., FAST 2018, https://github.com/CMU-SAFARI/MQSim) gets its own example of a configuration with the
changes of `DEVICE` and `FLOW`. fonio gets the same numbers as a profile. Prints the results of both as JSON.
"""

from __future__ import annotations

import json
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from typing import Any, NamedTuple

import fonio

PAGE = 8192
DEVICE: dict[str, Any] = {
    # One plane per die, because MQSim places pages on planes, and fonio programs all planes of a die together.
    "Plane_No_Per_Die": 1,
    "Die_No_Per_Chip": 1,
    "Page_No_Per_Block": 64,
    "Block_No_Per_Plane": 256,
    # Map, cache, suspension and wear levelling are not compared.
    "Ideal_Mapping_Table": "true",
    "CMD_Suspension_Support": "NONE",
    "Static_Wearleveling_Enabled": "false",
    "Dynamic_Wearleveling_Enabled": "false",
    "GC_Block_Selection_Policy": "GREEDY",
    # Collection begins when 5 of 256 blocks are free. But MQSim keeps at least `KEPT_FREE`.
    "GC_Exec_Threshold": "0.02",
    "GC_Hard_Threshold": "0.01",
}
FLOW: dict[str, Any] = {
    "Device_Level_Data_Caching_Mode": "TURNED_OFF",
    "Die_IDs": 0,
    "Plane_IDs": 0,
    "Working_Set_Percentage": 100,
    "Address_Alignment_Unit": 16,
    "Average_Request_Size": 16,
    "Stop_Time": 0,
}
PROFILE: dict[str, str | int] = {
    "device.kind": "flash",
    "device.depth": 64,
    "device.command_max": "1 MiB",
    "device.discard_granularity": "8 KiB",
    "device.fua": "yes",
    "device.flush_blocks_all": "no",
    "interface.read_command": "0 ns",
    "interface.write_command": "0 ns",
    "interface.flush_command": "0 ns",
    "interface.fua_cost": "0 ns",
    # PCIe with 4 lanes of 1 GB/s.
    "interface.read_rate": "4000 MB/s",
    "interface.write_rate": "4000 MB/s",
    "interface.full_duplex": "yes",
    "interface.programs_while_receiving": "no",
    "interface.read_streams": 1,
    "interface.write_streams": 1,
    "flash.planes": 1,
    "flash.page": PAGE,
    "flash.pages_per_block": 64,
    "flash.t_read": "75 us",
    "flash.t_program": "750 us",
    "flash.t_erase": "3.8 ms",
    "flash.channel_rate": "333 MB/s",
    "flash.reads_wait_for": "operation",
    "ftl.kind": "page_map",
    "ftl.unit": PAGE,
    "ftl.collection": "greedy",
}


# The constant in MQSim's source.
KEPT_FREE = 10


class Experiment(NamedTuple):
    """One experiment: dies, load, and the share of flash that the host cannot use."""

    name: str
    channels: int
    dies: int
    reads: int
    depth: int
    over: float
    collect: bool
    # Number of requests, of one page each.
    requests: int = 4000
    # Number of blocks in each plane that MQSim keeps free, whatever its configuration says.
    kept_free: int = KEPT_FREE

    def mqsim(self, folder: pathlib.Path) -> dict[str, float]:
        """Runs MQSim, and returns its mean response time, its write amplification and its processor time."""
        if self.kept_free != KEPT_FREE:
            with tempfile.TemporaryDirectory() as made:
                changed_folder = pathlib.Path(made) / "mqsim"
                shutil.copytree(folder, changed_folder)
                keep_free(changed_folder, self.kept_free)
                return self._replace(kept_free=KEPT_FREE).mqsim(changed_folder)
        device = DEVICE | {
            "Flash_Channel_Count": self.channels,
            "Chip_No_Per_Channel": self.dies,
            "Overprovisioning_Ratio": self.over,
            "Enabled_Preconditioning": str(self.collect).lower(),
        }
        flow = FLOW | {
            "Channel_IDs": ",".join(map(str, range(self.channels))),
            "Chip_IDs": ",".join(map(str, range(self.dies))),
            "Read_Percentage": self.reads,
            "Average_No_of_Reqs_in_Queue": self.depth,
            "Total_Requests_To_Generate": self.requests,
            "Initial_Occupancy_Percentage": 99 if self.collect else 50,
        }
        examples = [(folder / name).read_text(encoding="ascii") for name in ("ssdconfig.xml", "workload.xml")]
        tag = "IO_Flow_Parameter_Set_Synthetic"
        found = re.search(f"<{tag}>.*?</{tag}>", examples[1], re.DOTALL)
        assert found is not None, "the example of a workload has no synthetic flow"
        top = "MQSim_IO_Scenarios"
        scenario = f"<{top}><IO_Scenario>{changed(found.group(), flow)}</IO_Scenario></{top}>"
        with tempfile.TemporaryDirectory() as made:
            config, workload = pathlib.Path(made) / "device.xml", pathlib.Path(made) / "load.xml"
            config.write_text(changed(examples[0], device), encoding="ascii")
            workload.write_text(f'<?xml version="1.0" encoding="us-ascii"?>\n{scenario}', encoding="ascii")
            before = of_children()
            subprocess.run(
                [folder / "MQSim", "-i", config, "-w", workload], stdout=subprocess.DEVNULL, check=True, cwd=made
            )
            processor_s = of_children() - before
            result = xml.etree.ElementTree.parse(pathlib.Path(made) / "load_scenario_1.xml").getroot()
        text = {element.tag: element.text or "" for element in result.iter()}
        layer = next(element for element in result.iter() if "Issued_Flash_Program_CMD" in element.attrib).attrib
        assert int(text["Request_Count"]) == self.requests, f"{self.name}: MQSim ended early"
        return {
            "response_us": float(text["Device_Response_Time"]),
            "amplification": int(layer["Issued_Flash_Program_CMD"]) / max(1, int(text["Write_Request_Count"])),
            "processor_s": processor_s,
        }

    def fonio(self) -> dict[str, float]:
        """Simulates the same device and load, and returns the same numbers."""
        blocks = self.channels * self.dies * DEVICE["Block_No_Per_Plane"]
        capacity = round(blocks * 64 * (1 - self.over)) * PAGE
        changes: dict[str, str | int] = {
            "device.capacity": capacity,
            "flash.channels": self.channels,
            "flash.dies_per_channel": self.dies,
            # Relative to the capacity, not to all flash as in MQSim.
            "ftl.spare": f"{self.over / (1 - self.over):.1%}",
        }
        profile = fonio.profile(PROFILE | changes)
        fill = [fonio.ClosedLoop(capacity // (64 * PAGE), size=64 * PAGE, order="sequential")]
        if self.collect:
            fill.append(fonio.ClosedLoop(2 * capacity // PAGE, size=PAGE))
        load = fonio.ClosedLoop(self.requests, reads=self.reads / 100, size=PAGE, depth=self.depth)
        # A shuffled order of the blocks, but the load begins only when the device has collected for a while.
        before = time.process_time()
        result = fonio.simulate(profile, load, prepare=fill, depth=self.depth)
        processor_s = time.process_time() - before
        ops = result.summary["ops"]
        total = sum(row["response"]["mean_ns"] * row["count"] for row in ops.values())
        return {
            "response_us": total / self.requests / 1000,
            "amplification": result.write_amplification or 0.0,
            "processor_s": processor_s,
        }


def of_children() -> float:
    """Returns the processor time of the programs that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def keep_free(folder: pathlib.Path, blocks: int) -> None:
    """Changes the number of free blocks that MQSim keeps in each plane, and builds it again."""
    path = folder / "src/exec/SSD_Device.cpp"
    source = path.read_text(encoding="utf-8")
    assert source.count(f"max_rho, {KEPT_FREE},") == 1, f"{path} has no constant for the free blocks"
    path.write_text(source.replace(f"max_rho, {KEPT_FREE},", f"max_rho, {blocks},"), encoding="utf-8")
    subprocess.run(["make", "--silent"], stdout=subprocess.DEVNULL, check=True, cwd=folder)


def changed(text: str, values: dict[str, Any]) -> str:
    """Returns an XML text with other values. The text must have all of them."""
    for key, value in values.items():
        text, count = re.subn(f"<{key}>[^<]*</{key}>", f"<{key}>{value}</{key}>", text)
        assert count == 1, f"MQSim's example has {count} values of {key}"
    return text


# Name, channels, dies per channel, percentage of reads, depth, share of the flash that is spare, whether blocks are
# collected, and number of requests.
EXPERIMENTS = [
    Experiment("reads, 1 die, depth 1", 1, 1, 100, 1, 0.28, False),
    Experiment("reads, 1 die, depth 4", 1, 1, 100, 4, 0.28, False),
    Experiment("reads, 2 channels of 2 dies, depth 8", 2, 2, 100, 8, 0.28, False),
    Experiment("writes, 1 die, depth 1", 1, 1, 0, 1, 0.28, False),
    Experiment("writes, 1 die, depth 4", 1, 1, 0, 4, 0.28, False),
    Experiment("writes, 2 channels of 2 dies, depth 8", 2, 2, 0, 8, 0.28, False),
    Experiment("70 % reads, 1 die, depth 2", 1, 1, 70, 2, 0.28, False),
    Experiment("100,000 writes, 28 % of the flash spare", 1, 1, 0, 1, 0.28, True, 100_000),
    Experiment("1,000,000 writes, 28 % of the flash spare", 1, 1, 0, 1, 0.28, True, 1_000_000),
    Experiment("1,000,000 writes, 28 % spare, MQSim keeps 3 blocks free", 1, 1, 0, 1, 0.28, True, 1_000_000, 3),
    Experiment("100,000 writes, 40 % of the flash spare", 1, 1, 0, 1, 0.40, True, 100_000),
    Experiment("1,000,000 writes, 40 % of the flash spare", 1, 1, 0, 1, 0.40, True, 1_000_000),
    Experiment("1,000,000 writes, 40 % spare, MQSim keeps 3 blocks free", 1, 1, 0, 1, 0.40, True, 1_000_000, 3),
]


def main() -> None:
    """Prints the results of both simulators."""
    folder = pathlib.Path(sys.argv[1]).resolve()
    rows = [
        {"name": one.name, "requests": one.requests, "mqsim": one.mqsim(folder), "fonio": one.fonio()}
        for one in EXPERIMENTS
    ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
