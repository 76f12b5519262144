"""Imports what a case names and says what the loader made of it: JSON on one line."""
import ctypes, glob, json, os, sys


class Map(ctypes.Structure):
    pass


Map._fields_ = [("addr", ctypes.c_void_p), ("name", ctypes.c_char_p), ("dynamic", ctypes.c_void_p), ("next", ctypes.POINTER(Map))]


def mapped():
    own = ctypes.CDLL(None)
    first = ctypes.POINTER(Map)()
    own.dlinfo(ctypes.c_void_p(own._handle), 2, ctypes.byref(first))
    names, at = [], first
    while at:
        names.append(os.fsdecode(at.contents.name))
        at = at.contents.next
    return [name for name in names if name.startswith("/")]


def open_in(folders, patterns, mode=ctypes.DEFAULT_MODE):
    """The first file of the patterns in the first folder that has one."""
    for folder in folders:
        for pattern in patterns:
            for path in sorted(glob.glob(os.path.join(folder, pattern))):
                return ctypes.CDLL(path, mode=mode)
    return None


def pathfinder(names, folders):
    """cuda.pathfinder, `load_nvidia_dynamic_lib`: what is mapped, then folders of packages, then names."""
    import site

    sites = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        sites.insert(1 if sys.prefix != sys.base_prefix else 0, site.getusersitepackages())
    found = next((path for folder in folders for name in names for at in sites
                  if os.path.isfile(path := os.path.join(at, folder, name))), None)
    for name in names:
        try:
            return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
        except OSError:
            pass
    if found:
        return ctypes.CDLL(found, os.RTLD_NOW | os.RTLD_GLOBAL)
    words = None
    for name in names:
        try:
            return ctypes.CDLL(name, os.RTLD_NOW | os.RTLD_GLOBAL)
        except OSError as error:
            words = words or error
    raise words


said = {"error": None, "missing": False, "module": None, "cupti": None, "nvperf": None}
try:
    for name in sys.argv[1].split(","):
        module = __import__(name, fromlist=["x"])
    said["module"] = os.path.realpath(module.__file__)
    if hasattr(module, "first_call"):
        module.first_call(pathfinder)
except ModuleNotFoundError as error:
    said["missing"], said["error"] = True, str(error)
except (ImportError, OSError, ValueError) as error:
    said["error"] = str(error)
cupti = [path for path in mapped() if "/libcupti.so" in path]
if cupti:
    said["cupti"] = os.path.realpath(cupti[0])
    library = ctypes.CDLL(cupti[0])
    library.open_nvperf.restype = ctypes.c_char_p
    said["nvperf"] = library.open_nvperf().decode()
print(json.dumps(said))
