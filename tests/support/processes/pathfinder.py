# As cuda.pathfinder, `load_nvidia_dynamic_lib`: what is mapped, the folders of packages, then the names.
import ctypes, os, site, sys

names, folders = ["libcupti.so.13", "libcupti.so.12"], ["nvidia/cu13/lib", "nvidia/cuda_cupti/lib"]
sites = site.getsitepackages()
if site.ENABLE_USER_SITE:
    sites.insert(1 if sys.prefix != sys.base_prefix else 0, site.getusersitepackages())
paths = [os.path.join(at, folder, name) for folder in folders for name in names for at in sites]
words = None
for name, mode in [
    *((name, os.RTLD_NOLOAD) for name in names),
    *((path, os.RTLD_NOW | os.RTLD_GLOBAL) for path in paths if os.path.isfile(path)),
    *((name, os.RTLD_NOW | os.RTLD_GLOBAL) for name in names),
]:
    try:
        ctypes.CDLL(name, mode=mode)
        break
    except OSError as error:
        words = words or error
else:
    raise words
