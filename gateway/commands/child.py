"""What does a process do that the supervisor started?  One command for each kind of child."""

import argparse
import sys


def run_child(given: argparse.Namespace) -> int:
    """Be the child that `given.command` names, told on standard input what to do; gives its exit status."""
    from gateway.processes import process

    setting = process.Setting(given.supervisor, given.log_level, given.log_format, given.control)
    told = sys.stdin.buffer.read()
    if given.command == "_worker":
        return process.run_worker(told, [int(fd) for fd in given.fds.split(",") if fd], setting)
    runs = {
        "_shadow": process.run_shadow,
        "_analysis": process.run_analysis,
        "_discovery": process.run_discovery,
        "_events": process.run_events,
        "_recording": process.run_recording,
        "_launch": process.run_launch,
    }
    return runs[given.command](told, setting)
