"""Runs a program as its interpreter would, then what it does when it profiles, and prints which libcupti is mapped."""

import ctypes
import runpy
import sys


def open_as(path, name):
    """Opens a library on behalf of another one, which decides where it is looked for."""
    ctypes.CDLL(path)
    helper = ctypes.CDLL("/mnt/as_caller.so")
    helper.open_as.restype = ctypes.c_char_p
    error = helper.open_as(path.encode(), name.encode())
    if error:
        sys.exit(error.decode())


def open_by_function(path, name):
    """Opens CUPTI by an exported function of TensorFlow that fills a status; its log has the words of the loader."""
    function = ctypes.CDLL(path)[name]
    function.argtypes, function.restype = [ctypes.c_void_p], None
    status = (ctypes.c_uint64 * 8)()
    function(status)
    if status[0] not in (0, 1):  # OK, in two releases
        sys.exit("TensorFlow cannot open libcupti.so")


program, opens = sys.argv[1:]
sys.argv = [program]
sys.path[0] = program.rpartition("/")[0]
runpy.run_path(program, run_name="__main__")
exec(opens)
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "/libcupti.so" in line}
print("copy:", *sorted(mapped))
