/* Runs a program inside a root with exactly the environment given: in_root ROOT DIR COUNT VARIABLE… PROGRAM …
   It is linked statically, so that neither the variables nor the root's preload file touch it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  if (argc < 5)
    return 100;
  int count = atoi(argv[3]);
  char *environment[count + 1];
  for (int i = 0; i < count; i++)
    environment[i] = argv[4 + i];
  environment[count] = NULL;
  struct rlimit none = { 0, 0 };
  setrlimit(RLIMIT_CORE, &none);
  if (chroot(argv[1]) != 0 || chdir(argv[2]) != 0)
    return 101;
  /* Another thread of the test may have forked while it wrote the program, and hold it open for a moment. */
  for (int i = 0; i < 500; i++) {
    execve(argv[4 + count], argv + 4 + count, environment);
    if (errno != ETXTBSY)
      break;
    usleep(2000);
  }
  return 102;
}
