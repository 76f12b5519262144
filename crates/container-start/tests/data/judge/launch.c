/* launch OVERLAY LOWER DIRECTORY USER SECONDS COUNT VARIABLE... WORD...: runs the words as an engine would, in a root of
 * OVERLAY/upper over LOWER: with these variables alone, /proc and /dev of the host, standard input from /dev/null, and not
 * for longer than that. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void stop(int signal) {
  (void)signal;
  kill(-child, SIGKILL);
  _exit(124);
}

static void need(int result, const char *what) {
  if (result < 0) {
    perror(what);
    _exit(125);
  }
}

static void mount_at(const char *root, const char *from) {
  char to[4096];
  snprintf(to, sizeof to, "%s%s", root, from);
  need(mount(from, to, 0, MS_BIND | MS_REC, 0), to);
}

int main(int count, char **words) {
  (void)count;
  const char *overlay = words[1], *directory = words[3];
  int user = atoi(words[4]), seconds = atoi(words[5]), variables = atoi(words[6]);
  char root[4096], options[16384];
  snprintf(root, sizeof root, "%s/root", overlay);
  snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work", words[2], overlay, overlay);
  need(unshare(CLONE_NEWNS), "unshare");
  need(mount(0, "/", 0, MS_REC | MS_PRIVATE, 0), "private mounts");
  need(mount("overlay", root, "overlay", 0, options), "overlay");
  mount_at(root, "/proc");
  mount_at(root, "/dev");
  int null = open("/dev/null", O_RDONLY);
  need(null, "/dev/null");
  need(chroot(root), root);
  /* What outlives its parent ends with this process. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  child = fork();
  need(child, "fork");
  if (child == 0) {
    setpgid(0, 0);
    dup2(null, 0);
    close(null);
    umask(022);
    need(chdir(directory), directory);
    need(setgroups(0, 0), "setgroups");
    need(setgid(user), "setgid");
    need(setuid(user), "setuid");
    clearenv();
    for (int i = 0; i < variables; i++)
      putenv(words[7 + i]);
    execvp(words[7 + variables], words + 7 + variables);
    perror(words[7 + variables]);
    _exit(127);
  }
  signal(SIGALRM, stop);
  alarm(seconds);
  int status = 0, ended;
  int result = 0;
  /* Background programs count as well: the run is over when the last of them is. */
  while ((ended = wait(&status)) > 0)
    if (ended == child)
      result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}
