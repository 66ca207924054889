/* A stub's answers: lines "key value" of the text file that an environment variable names. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 512

/* Copy the value of a key; 0 when the file has no such line. */
static int answer(const char *variable, const char *key, char *value, size_t size)
{
    const char *path = getenv(variable);
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LINE];
    int found = 0;
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file)) {
        char *space = strchr(line, ' ');
        if (!space)
            continue;
        *space = '\0';
        if (strcmp(line, key) == 0) {
            snprintf(value, size, "%s", space + 1);
            value[strcspn(value, "\n")] = '\0';
            found = 1;
        }
    }
    fclose(file);
    return found;
}

/* What the script makes a function do: a code to return, or the end of the process. */
static int obey(const char *variable, const char *key)
{
    char word[LINE];
    if (!answer(variable, key, word, sizeof word))
        return 0;
    if (strcmp(word, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(word, "segfault") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(word, "abort") == 0)
        abort();
    if (strcmp(word, "exit") == 0)
        _exit(7);
    return atoi(word);
}
