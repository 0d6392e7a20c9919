/* What runs in the handler is async-signal-safe: system calls, and memory of its own. */
#include "cli/cut_short.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/progress.h"

/* ---- /proc/self/maps --------------------------------------------------------------------------------------------- */

typedef struct {
    int descriptor;
    size_t at, n; /* of bytes */
    char bytes[1024];
} reader;

/* The next character; a line end at the end of the file too, and then false. */
static bool next(reader *r, char *out)
{
    *out = '\n';
    if (r->at == r->n) {
        const ssize_t got = read(r->descriptor, r->bytes, sizeof r->bytes);
        if (got <= 0) return false;
        r->n = (size_t)got;
        r->at = 0;
    }
    *out = r->bytes[r->at++];
    return true;
}

/* A number in hexadecimal, and the character behind it. */
static bool read_address(reader *r, uintptr_t *out)
{
    char c;
    uintptr_t value = 0;
    while (next(r, &c)) {
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) {
            *out = value;
            return true;
        }
        value = value << 4 | (uintptr_t)digit;
    }
    return false;
}

/* The rest of a line, from its first slash on: "r--p 00000000 fe:00 1234    /a/file". */
static size_t read_path(reader *r, char out[PATH_MAX])
{
    char c;
    size_t n = 0;
    while (next(r, &c) && c != '\n')
        if ((n > 0 || c == '/') && n < PATH_MAX) out[n++] = (unsigned char)c < 0x20 || c == 0x7F ? ' ' : c;
    return n;
}

/* The file that is mapped at an address; 0: none. */
static size_t find_file(uintptr_t address, char out[PATH_MAX])
{
    reader r = { .descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC) };
    uintptr_t begin, end;
    size_t n = 0;
    bool found = false;
    while (!found && r.descriptor >= 0 && read_address(&r, &begin) && read_address(&r, &end)) {
        n = read_path(&r, out);
        found = address >= begin && address < end;
    }
    if (r.descriptor >= 0) close(r.descriptor);
    return found ? n : 0;
}

/* ---- what was being written ---------------------------------------------------------------------------------------- */

static _Atomic(const char *) being_written; /* or NULL */

void pf_cut_short_remove(const char *directory)
{
    being_written = directory;
}

/* What opendir would do, which may not be called here. "." and ".." are no files, and stay. */
static void remove_directory(const char *path)
{
    _Alignas(struct dirent64) char entries[2048];
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (ssize_t n; directory >= 0 && (n = getdents64(directory, entries, sizeof entries)) > 0;)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(entries + at);
            (void)unlinkat(directory, entry->d_name, 0);
            at += entry->d_reclen;
        }
    if (directory >= 0) close(directory);
    (void)rmdir(path);
}

static void clean(void)
{
    const char *directory = being_written;
    if (directory != NULL) remove_directory(directory);
}

/* ---- the signal -------------------------------------------------------------------------------------------------- */

static void say(const char *text, size_t n)
{
    const ssize_t written = write(STDERR_FILENO, text, n);
    (void)written; /* no other way to report it */
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    static const char before[] = "pilotfish: ", after[] = ": was cut short while it was read, or its disk has failed\n";
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    char path[PATH_MAX];
    (void)context;
    const size_t n = info->si_code == BUS_ADRERR ? find_file((uintptr_t)info->si_addr, path) : 0;
    if (n == 0) {
        signal(number, SIG_DFL); /* the access is tried again, and ends the process */
        return;
    }
    while (atomic_flag_test_and_set(&begun)) pause(); /* another thread says it */
    pf_progress_wipe();
    say(before, sizeof before - 1);
    say(path, n);
    say(after, sizeof after - 1);
    clean();
    _exit(PF_EXIT_FAILED);
}

void pf_cut_short_on_signal(int number)
{
    sigset_t signals;
    pf_progress_wipe();
    clean();
    signal(number, SIG_DFL);
    sigemptyset(&signals);
    sigaddset(&signals, number);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    raise(number);       /* ends the process here, but a container's first one: that the kernel spares */
    _exit(128 + number); /* as a shell calls the same end */
}

void pf_cut_short_install(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, NULL);
}
