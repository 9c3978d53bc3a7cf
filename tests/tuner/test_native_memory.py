"""Memory in which CPU kernels are checked and timed: access rights in and around it."""

from __future__ import annotations

import ctypes

from searches.planted_kernels import WORKLOAD, planted
from tcopt.support.processes.guarded_memory import PAGE, REACH, map_region
from tcopt.tuner.measure.native_memory import NativeMemory


def rights(address: int) -> str:
    """Return this process's access rights to an address, from Linux."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, allowed, *_ = line.split()
            first, end = (int(each, 16) for each in span.split("-"))
            if first <= address < end:
                return allowed[:2]
    return ""


def test_what_lies_around_a_region_may_be_read_for_a_while():
    region = map_region(PAGE, 0, PAGE, writable=True, guard=4 * REACH)
    front, behind = region.start - 1, region.start + PAGE
    assert (rights(front), rights(region.start), rights(behind)) == ("--", "rw", "--")
    region.let_read(True)
    assert (rights(front), rights(region.start), rights(behind)) == ("r-", "rw", "r-")
    assert ctypes.c_uint8.from_address(behind + REACH - 1).value == 0
    # An address that is far off is an error of the kernel.
    assert rights(front - REACH) == rights(behind + REACH) == "--"
    region.let_read(False)
    assert (rights(front), rights(region.start), rights(behind)) == ("--", "rw", "--")
    region.free()


def test_kernels_are_timed_with_memory_around_and_checked_without():
    """Masked lanes cost hundreds of cycles on inaccessible memory, and nothing elsewhere."""
    memory = NativeMemory(WORKLOAD)
    memory.fill(0)
    kernel = memory.load(planted("good"))
    places = [region.start + region.size + PAGE * 4 for _, region in memory.regions]
    assert {rights(place) for place in places} == {"--"}
    assert kernel.time(3, 1) > 0
    assert {rights(place) for place in places} == {"r-"}
    kernel.call(1)
    assert {rights(place) for place in places} == {"--"}
    kernel.close()
    memory.close()
