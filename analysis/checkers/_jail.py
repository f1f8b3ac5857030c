"""Runs a program from standard input that may compute, and nothing else: started as a script, never imported.

Before its first line runs the process has bounds on memory and time, and a seccomp filter that lets through
what computing takes and refuses all other system calls: no socket, no other process, no signal, no file
opened but to be read. It needs no right to do so, and what it has given up it cannot get back.

Arguments: seconds of CPU time, and the exit status that says that the program came to its end, which it is
not told: one that leaves early has not. Status 3: it could not be locked in, and did not run.
"""

import ctypes
import os
import platform
import resource
import struct
import sys

_MEMORY_BYTES = 1 << 30
_UNJAILED = 3
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000  # _REFUSE: EPERM

# System calls by architecture: its AUDIT_ARCH, openat's number, and those that are let through.
_X86_64 = (
    0xC000003E, 257,
    [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 20, 21, 23, 24, 25, 28, 32, 35, 39, 60, 63,
     79, 89, 96, 97, 98, 99, 102, 104, 107, 108, 110, 131, 137, 138, 186, 201, 202, 204, 217, 218, 228, 229,
     230, 231, 262, 267, 269, 273, 318, 332, 334, 439],
)  # fmt: skip
_AARCH64 = (
    0xC00000B7, 56,
    [17, 23, 43, 44, 48, 57, 61, 62, 63, 64, 65, 66, 67, 72, 73, 78, 79, 80, 93, 94, 96, 98, 99, 101, 113,
     114, 115, 123, 124, 132, 134, 135, 136, 139, 153, 160, 163, 165, 169, 172, 173, 174, 175, 176, 177,
     178, 179, 214, 215, 216, 222, 226, 233, 278, 291, 293, 439],
)  # fmt: skip
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _filter(arch: int, openat: int, calls: "list[int]") -> bytes:
    """The BPF program: another architecture dies, openat may read, the calls pass, the rest gets EPERM."""

    def step(code: int, yes: int, no: int, value: int) -> bytes:
        return struct.pack("=HBBI", code, yes, no, value)

    load, equal, bits, end = 0x20, 0x15, 0x45, 0x06
    steps = [step(load, 0, 0, 4), step(equal, 1, 0, arch), step(end, 0, 0, _KILL), step(load, 0, 0, 0)]
    steps += [step(equal, 0, 4, openat), step(load, 0, 0, 32), step(bits, 0, 1, _WRITES)]
    steps += [step(end, 0, 0, _REFUSE), step(end, 0, 0, _ALLOW)]
    for call in calls:
        steps += [step(equal, 0, 1, call), step(end, 0, 0, _ALLOW)]
    return b"".join([*steps, step(end, 0, 0, _REFUSE)])


def _lock_in(cpu_s: int) -> None:
    """Raises OSError or KeyError where it cannot."""
    arch, openat, calls = {"x86_64": _X86_64, "aarch64": _AARCH64}[platform.machine()]
    if sys.platform != "linux":
        raise OSError("seccomp is Linux's")
    bounds = [("CPU", cpu_s), ("AS", _MEMORY_BYTES), ("FSIZE", 0), ("CORE", 0), ("NOFILE", 64)]
    for name, most in bounds:
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    libc = ctypes.CDLL(None, use_errno=True)
    program = _filter(arch, openat, calls)
    held = ctypes.create_string_buffer(program, len(program))
    length = len(program) // 8
    said = struct.pack("HxxxxxxQ", length, ctypes.addressof(held))
    prog = ctypes.create_string_buffer(said, len(said))
    no_new_privileges, set_seccomp, filtered = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if libc.prctl(set_seccomp, filtered, ctypes.c_void_p(ctypes.addressof(prog)), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _main() -> None:
    program, cpu_s, ended = sys.stdin.buffer.read(), int(sys.argv[1]), int(sys.argv[2])
    try:
        _lock_in(cpu_s)
    except (OSError, KeyError, ValueError):
        os._exit(_UNJAILED)
    del sys.argv[1:]
    try:
        exec(compile(program, "<answer>", "exec"), {"__name__": "__main__"})
    except BaseException:  # SystemExit, too
        os._exit(1)
    os._exit(ended)


if __name__ == "__main__":
    _main()
