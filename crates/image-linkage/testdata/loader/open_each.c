/* Opens each library in a process of its own and prints what comes of it, a line each: "loaded", "refused WORDS",
   "signal NUMBER", or "exit STATUS WORDS" where the loader ends the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(const char *path)
{
  alarm(1);
  /* What a damaged library prints is no answer. */
  close(1);
  void *handle = dlopen(path, RTLD_NOW);
  if (handle == NULL) {
    fprintf(stderr, "%s", dlerror());
    _exit(1);
  }
  /* Whoever opens a library looks something up in it. */
  dlsym(handle, "probe");
  dlsym(handle, "a_name_that_no_library_has");
  exit(0);
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    int ends[2], status;
    char words[4096];
    if (pipe(ends) != 0)
      return 100;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], 2);
      close(ends[0]);
      close(ends[1]);
      child(argv[i]);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], words + length, sizeof words - 1 - length)) > 0)
      length += got;
    words[length] = 0;
    close(ends[0]);
    for (char *line; (line = strchr(words, '\n')) != NULL;)
      *line = ' ';
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
      printf("signal %d\n", WTERMSIG(status));
    else if (WEXITSTATUS(status) == 0)
      printf("loaded\n");
    else if (WEXITSTATUS(status) == 1)
      printf("refused %s\n", words);
    else
      printf("exit %d %s\n", WEXITSTATUS(status), words);
  }
  return 0;
}
