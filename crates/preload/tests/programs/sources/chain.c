/* Starts programs in all possible ways. Each argument is a shell command. */
#include "check.h"
#include <spawn.h>

extern char **environ;

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *shell[] = {"sh", "-c", argv[i], NULL};
        pid_t child;
        OK(posix_spawn(&child, "/bin/sh", NULL, NULL, shell, environ));
        reap(child);
        child = vfork();
        CHECK(child >= 0);
        if (child == 0) {
            execv("/bin/sh", shell);
            _exit(127);
        }
        reap(child);
        CHECK(system(argv[i]) == 0);
        FILE *output = popen(argv[i], "r");
        CHECK(output);
        char line[1000];
        while (fgets(line, sizeof line, output)) fputs(line, stdout);
        CHECK(pclose(output) == 0);
        fflush(stdout);
    }
    char *last[] = {"sh", "-c", "echo the last one", NULL};
    execv("/bin/sh", last);
    return 1;
}
