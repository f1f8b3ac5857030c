"""Run by Python at its start: vLLM's second model runner asks for a Triton that compiles for this machine.

On a CPU there is none, but Triton's interpreter (TRITON_INTERPRET=1) runs the same kernels; vLLM looks for a
backend called cpu, and is shown one.
"""

import importlib
import types

try:
    known = importlib.import_module("triton.backends").backends
except ImportError:
    pass
else:
    known.setdefault("cpu", types.SimpleNamespace(driver=types.SimpleNamespace(is_active=lambda: True)))
