/*
 * pilotfish: the one binary. This file finds the subcommand; what it does is in cmd_NAME.c.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/cut_short.h"
#include "cli/interrupt.h"
#include "cli/shell_limits.h"

static const pf_command *const commands[] = {
    &pf_command_generate,         &pf_command_chat,        &pf_command_worker,
    &pf_command_verifier,         &pf_command_serve,       &pf_command_top,
    &pf_command_logits,           &pf_command_tokenize,    &pf_command_detokenize,
    &pf_command_quantize,         &pf_command_info,        &pf_command_bench_kernels,
    &pf_command_bench_throughput, &pf_command_bench_steps, &pf_command_bench_rpc,
    &pf_command_bench_acceptance,
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int print_usage(pf_out *out)
{
    pf_out_print(out,
                 "pilotfish %s: speculative decoding with the draft model on the CPU\n\n"
                 "Usage: pilotfish COMMAND [options]\n\nCommands:\n",
                 pf_version());
    for (size_t i = 0; i < N_COMMANDS; i++) pf_out_print(out, "  %-18s %s\n", commands[i]->name, commands[i]->summary);
    pf_out_print(out, "\nEach has its own help: pilotfish COMMAND --help. Which version: pilotfish --version. The "
                      "manual: man pilotfish.\n");
    return PF_EXIT_DONE;
}

/* The command whose name begins argv[1 ..]; *n_words is how many words its name has. */
static const pf_command *find_command(int argc, char **argv, int *n_words)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char name[64];
        const char *space = strchr(commands[i]->name, ' ');
        *n_words = space ? 2 : 1;
        if (argc <= *n_words) continue;
        snprintf(name, sizeof name, "%.24s%s%.24s", argv[1], space ? " " : "", space ? argv[2] : "");
        if (strcmp(name, commands[i]->name) == 0) return commands[i];
    }
    return NULL;
}

static int unknown_command(int argc, char **argv)
{
    const bool is_bench = strcmp(argv[1], "bench") == 0;
    char known[256] = "";
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i]->name;
        const bool in_bench = strncmp(name, "bench ", 6) == 0;
        if (in_bench == is_bench) pf_list_word(known, sizeof known, ", ", in_bench ? name + 6 : name);
    }
    if (is_bench && argc < 3)
        pf_out_say("pilotfish: bench needs to be told what: one of %s; see pilotfish --help", known);
    else
        pf_out_say("pilotfish: there is no %s\"%.40s\", expected one of %s%s; see pilotfish --help",
                   is_bench ? "bench " : "command ", argv[is_bench ? 2 : 1], known, is_bench ? "" : ", bench");
    return PF_EXIT_USAGE;
}

/* An instruction set that is a word and not here is a failure, not misuse. */
static int run_command(const pf_command *command, pf_options *options, pf_out *out)
{
    pf_error error = { 0 };
    const pf_status status = pf_isa_parse(options->isa_word, &options->isa, &error);
    if (status != PF_OK) return pf_out_fail_error(status, &error);
    out->whole_lines = options->json;
    return command->run(options, out);
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run_words(int argc, char **argv, pf_out *out)
{
    if (argc < 2) {
        pf_out_say("pilotfish: a command is needed; see pilotfish --help");
        return PF_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        pf_out_print(out, "pilotfish %s\n", pf_version());
        return PF_EXIT_DONE;
    }
    const bool bench_help = strcmp(argv[1], "bench") == 0 && argc == 3 && asks_for_help(argv[2]);
    if (asks_for_help(argv[1]) || bench_help) return print_usage(out);

    int n_words;
    const pf_command *command = find_command(argc, argv, &n_words);
    if (!command) return unknown_command(argc, argv);
    pf_options options;
    bool help;
    int code = pf_options_parse(command, argc - n_words, argv + n_words, &options, &help, out);
    if (code == PF_EXIT_DONE && !help) code = run_command(command, &options, out);
    pf_options_clear(&options);
    return code;
}

/* A frame of 30 KB, which must not be main's: the stack is looked at before there is need of it. */
__attribute__((noinline)) static int run(int argc, char **argv)
{
    enum { GRACE_NS = 1000000000 }; /* to read what was made so far */
    pf_out out = { .stop = { .told = pf_interrupt_flag(), .grace_ns = GRACE_NS } };
    return pf_out_finish(&out, run_words(argc, argv, &out));
}

/* A standard descriptor that was closed before we began would be given to the next file or socket, which would then be
 * read and written in its place. Each gets one that fails as a closed one does. gRPC opens an eventfd while it is loaded,
 * so this comes before the constructors of the libraries, and before a sanitizer: system calls alone. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void fill_closed_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (syscall(SYS_fcntl, fd, F_GETFD) < 0)
            (void)syscall(SYS_openat, AT_FDCWD, "/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(void) = fill_closed_descriptors;

int main(int argc, char **argv)
{
    pf_error error = { 0 };
    pf_interrupt_install();
    pf_cut_short_install();
    pf_json_watch_memory();
    const pf_status status = pf_shell_limits_heed(&error);
    return status == PF_OK ? run(argc, argv) : pf_out_fail_error(status, &error);
}
