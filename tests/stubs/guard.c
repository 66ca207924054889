/* Stands in for NVIDIA's libraries in tests that must not reach a real driver: whoever loads it
 * is written down, so that the test fails, and ended. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void trespassed(void)
{
    const char *path = getenv("ENVGUARD_TRESPASS_FILE");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    static const char words[] = "a real NVIDIA library was loaded: " LIBRARY "\n";
    if (file >= 0 && write(file, words, strlen(words)) < 0)
        perror("guard");
    _exit(97);
}
