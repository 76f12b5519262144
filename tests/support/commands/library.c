/* A stand-in for the library: it has a function, and needs the C library, as the real one does. */
#include <unistd.h>

unsigned cuptiGetVersion(unsigned *version) {
  *version = 22;
  return getpid() < 0;
}
