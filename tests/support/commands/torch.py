import ctypes
import os

here = os.path.dirname(__file__)
ctypes.CDLL(os.path.join(here, "lib", "libtorch_global_deps.so"), mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL(os.path.join(here, "_C.cpython-311-x86_64-linux-gnu.so"))
