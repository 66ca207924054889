/* A clock that is set back, for the process that loads this first, once a file is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    const char *file = getenv("STUB_CLOCK_SET_BACK");
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (status == 0 && clock == CLOCK_REALTIME && file && access(file, F_OK) == 0)
        now->tv_sec -= 86400;
    return status;
}
