"""Imports what a case names and says what the loader made of it: a line of JSON for each."""
import ctypes, glob, importlib.util, json, os, sys


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
    # What was opened by a relative path, as one of a working directory in sys.path is, has it as its name.
    return [name for name in names if "/" in name]


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


def place_of(name):
    """The file or folder that Python takes for the first part of a name."""
    try:
        spec = importlib.util.find_spec(name.split(".")[0])
    except ValueError:
        return None
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or [])
    return os.path.realpath(folders[0] if folders else spec.origin)


def answer(names):
    said = {"error": None, "kind": None, "place": place_of(names[-1]), "module": None, "cupti": None, "nvperf": None}
    try:
        for name in names:
            # The one that is asked about may be there without what is imported before it.
            if name != names[-1] and place_of(name) is None:
                continue
            module = __import__(name, fromlist=["x"])
        said["module"] = os.path.realpath(module.__file__)
        if hasattr(module, "first_call"):
            module.first_call(pathfinder)
    except (ImportError, OSError, ValueError) as error:
        said["kind"], said["error"] = type(error).__name__, str(error)
    cupti = [path for path in mapped() if "/libcupti.so" in path]
    if cupti and not said["error"]:
        said["cupti"] = os.path.realpath(cupti[0])
        library = ctypes.CDLL(cupti[0])
        library.open_nvperf.restype = ctypes.c_char_p
        said["nvperf"] = library.open_nvperf().decode()
    return said


for names in sys.argv[1:]:
    # In a process of its own: what one import maps is there for the next.
    child = os.fork()
    if child == 0:
        print(json.dumps(answer(names.split(","))), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
