# Opens what torch/__init__.py of VERSION opens, in its order (`_load_global_deps`, `_preload_cuda_deps`).
import ctypes, os, sys
from __main__ import mapped, open_in

LIBRARIES = [LIST]


def libraries(required):
    for library in LIBRARIES:
        folder, name = library.split("/")
        patterns = [f"nvidia/{folder}/lib/{name}.so.*[0-9]", f"nvidia/cu12/lib/{name}.so.*[0-9]", f"{folder}/lib/{name}.so.*[0-9]"]
        if open_in(sys.path, patterns) is None and required:
            raise ValueError(f"{name} not found in the system path")


deps = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libtorch_global_deps.so")
try:
    ctypes.CDLL(deps, mode=ctypes.RTLD_GLOBAL)
    try:
        if PRELOADS and any("libcudart.so" in path for path in mapped()):
            libraries(REQUIRED)
    except Exception:
        pass
except OSError as error:
    libraries(True)
    ctypes.CDLL(deps, mode=ctypes.RTLD_GLOBAL)
from torch._C import *
