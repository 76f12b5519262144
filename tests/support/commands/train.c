/* The program that every entry script starts in the end. It writes whether it got the library, and its search path. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef LINKED
unsigned cuptiGetVersion(unsigned *version);
static int gets(void) {
  unsigned version;
  cuptiGetVersion(&version);
  return 1;
}
#else
static int gets(void) { return dlopen("libcupti.so.12", RTLD_NOW) != NULL; }
#endif

int main(void) {
  char line[4096];
  const char *path = getenv("LD_LIBRARY_PATH");
  int log = open("/var/log/train/answers", O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (log < 0) return 3;
  strcpy(line, gets() ? "loaded " : "missing ");
  strncat(line, path == NULL ? "-" : path, sizeof line - 16);
  strcat(line, "\n");
  return write(log, line, strlen(line)) > 0 ? 0 : 4;
}
