"""A stand-in for PyTorch's build: its torch links libcupti, or not, by the same conditions as PyTorch's CMake files.

See cmake/Dependencies.cmake at 00c7a380. As setup.py, it does not configure again while CMakeCache.txt is there.
"""
import os, zipfile

CUDA = os.environ.get("CUDA_HOME", "")
CACHE = "build/CMakeCache.txt"


def links_cupti():
    if os.path.exists(CACHE):
        return open(CACHE).read() == "cupti"
    folders = ["", "extras/CUPTI/lib64", "lib", "lib64"]
    found = any(os.path.exists(os.path.join(CUDA, folder, "libcupti.so")) for folder in folders)
    links = found and os.environ.get("USE_KINETO", "1") == "1"
    os.makedirs("build", exist_ok=True)
    with open(CACHE, "w") as file:
        file.write("cupti" if links else "none")
    return links


def build_wheel(folder, config_settings=None, metadata_directory=None):
    assert os.environ["TORCH_CUDA_ARCH_LIST"] and int(os.environ["MAX_JOBS"]) > 0
    library = "with-cupti.so" if links_cupti() else "without-cupti.so"
    info = "torch-2.15.0.dist-info"
    wheel = "torch-2.15.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as file:
        file.write("init.py", "torch/__init__.py")
        file.write(library, "torch/lib/libtorch_cpu.so")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: stand-in\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return wheel
