# Opens what torch/__init__.py opens, in its order (`_load_global_deps`, `_preload_cuda_deps`).
import ctypes, os, sys


def libraries(required):
    for library in "LIBRARIES".split():
        folder, name = library.split("/")
        places = [os.path.join(path, "nvidia", folder, "lib") for path in sys.path]
        files = [
            os.path.join(place, file)
            for place in places
            if os.path.isdir(place)
            for file in sorted(os.listdir(place))
            if file.startswith(name + ".so.")
        ]
        if files:
            ctypes.CDLL(files[0])
        elif required:
            raise ValueError(f"{name} not found in the system path")


deps = os.path.join(os.path.dirname(__file__), "lib", "libtorch_global_deps.so")
try:
    ctypes.CDLL(deps, mode=ctypes.RTLD_GLOBAL)
    try:
        if PRELOADS and any("libcudart.so" in line for line in open("/proc/self/maps")):
            libraries(REQUIRED)
    except Exception:
        pass
except OSError:
    libraries(True)
    ctypes.CDLL(deps, mode=ctypes.RTLD_GLOBAL)
