"""How does a child of the demo end when the demo is killed?  The kernel is asked to end it too.

`python -m gateway.demo.child PARENT_PID MODULE ARGUMENT...` runs MODULE as `python -m MODULE ARGUMENT...`.
"""

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    parent, module, *rest = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != int(parent):  # it was gone before the kernel was asked
            return 1
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
