/* Runs programs in a root file system as a container engine starts them: with a user, groups, an environment and a
   working directory, the default capabilities of Docker, and the kernel's /proc, in a mount name space of its own.

   Lines of standard input:
     cap FILE HEX                       sets security.capability of a file of this machine
     job UID GID GROUPS DIR ENVS WORDS  runs a program; GROUPS with commas or -, then a line for each variable and word
   For each job it writes `STATUS BYTES` in a line, then what the program said; a signal is a negative status. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* moby, oci/caps/defaults.go */
#define DOCKER_CAPABILITIES 0xa80425fbULL

struct job {
  unsigned uid, gid;
  gid_t groups[16];
  int group_count;
  char *dir, **env, **words;
};

static void stop(const char *what) {
  printf("cannot %s: %s\n", what, strerror(errno));
  fflush(stdout);
  _exit(126);
}

static char *read_line(void) {
  char *line = NULL;
  size_t size = 0;
  ssize_t length = getline(&line, &size, stdin);
  if (length < 0) return NULL;
  if (length > 0 && line[length - 1] == '\n') line[length - 1] = 0;
  return line;
}

static char **read_lines(int count) {
  char **lines = calloc(count + 1, sizeof *lines);
  for (int i = 0; i < count; i++) lines[i] = read_line();
  return lines;
}

static void set_capability(const char *file, const char *hex) {
  unsigned char value[64];
  size_t size = strlen(hex) / 2;
  for (size_t i = 0; i < size && i < sizeof value; i++) sscanf(hex + 2 * i, "%2hhx", &value[i]);
  if (setxattr(file, "security.capability", value, size, 0) != 0) {
    fprintf(stderr, "security.capability of %s: %s\n", file, strerror(errno));
    exit(1);
  }
}

static void become(const struct job *job, const char *root) {
  if (chroot(root) != 0) stop("change root");
  /* runc tries as root first, then as the user (libcontainer, finalizeNamespace). */
  int in_dir = chdir(job->dir) == 0;
  for (int capability = 0; capability < 64; capability++)
    if (!(DOCKER_CAPABILITIES >> capability & 1)) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  if (setgroups(job->group_count, job->groups) != 0) stop("set groups");
  if (setresgid(job->gid, job->gid, job->gid) != 0) stop("set the group");
  if (setresuid(job->uid, job->uid, job->uid) != 0) stop("set the user");
  if (job->uid == 0) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2] = {{(unsigned)DOCKER_CAPABILITIES, (unsigned)DOCKER_CAPABILITIES, 0}, {0, 0, 0}};
    if (syscall(SYS_capset, &header, sets) != 0) stop("set capabilities");
  }
  if (!in_dir && chdir(job->dir) != 0) stop("change directory");
}

static void run(const struct job *job, const char *root) {
  int ends[2];
  if (pipe(ends) != 0) stop("make a pipe");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    close(nothing);
    become(job, root);
    alarm(30);
    environ = job->env;
    (strchr(job->words[0], '/') ? execv : execvp)(job->words[0], job->words);
    stop("start");
  }
  close(ends[1]);
  static char said[1 << 20];
  size_t length = 0;
  for (ssize_t got; length < sizeof said && (got = read(ends[0], said + length, sizeof said - length)) > 0;) length += got;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  printf("%d %zu\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), length);
  fwrite(said, 1, length, stdout);
}

static struct job read_job(char *rest) {
  struct job job = {0};
  char groups[256], dir[4096];
  int envs = 0, words = 0;
  if (sscanf(rest, "%u %u %255s %4095s %d %d", &job.uid, &job.gid, groups, dir, &envs, &words) != 6) exit(2);
  for (char *at = strtok(groups, ","); at != NULL && strcmp(at, "-") != 0 && job.group_count < 16; at = strtok(NULL, ","))
    job.groups[job.group_count++] = strtoul(at, NULL, 10);
  job.dir = strdup(dir);
  job.env = read_lines(envs);
  job.words = read_lines(words);
  return job;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  char proc[4096];
  snprintf(proc, sizeof proc, "%s/proc", argv[1]);
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
      || mount("proc", proc, "proc", 0, NULL) != 0) {
    perror("mount");
    return 1;
  }
  for (char *line; (line = read_line()) != NULL;) {
    if (strncmp(line, "cap ", 4) == 0) {
      char *hex = strrchr(line, ' ');
      *hex = 0;
      set_capability(line + 4, hex + 1);
    } else if (strncmp(line, "job ", 4) == 0) {
      struct job job = read_job(line + 4);
      run(&job, argv[1]);
    }
  }
  return 0;
}
