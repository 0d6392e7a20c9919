#include "tests/support/amx_faults.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static amx_config config; /* what a case sets up; in the child alone */
static uint8_t memory[4096];

/* Intel SDM volume 2, the exceptions of each instruction; classes AMX-E1 to AMX-E6. #UD is SIGILL, #GP SIGSEGV. */
#define CASES(CASE)                                                                                                    \
    CASE(nothing_wrong, 0, AMX_CONFIGURE(config); AMX_ZERO(0); AMX_ZERO(1); AMX_ZERO(2);                               \
         AMX_DOT("tdpbf16ps", 0, 1, 2); AMX_RELEASE())                                                                 \
    CASE(released, SIGILL, AMX_RELEASE(); AMX_ZERO(0))                                                                 \
    CASE(load_when_released, SIGILL, AMX_RELEASE(); AMX_LOAD(0, memory, 64))                                           \
    CASE(unknown_palette, SIGSEGV, config.palette = 2; AMX_CONFIGURE(config))                                          \
    CASE(reserved_byte, SIGSEGV, config.reserved[3] = 1; AMX_CONFIGURE(config))                                        \
    CASE(seventeen_rows, SIGSEGV, config.rows[2] = 17; AMX_CONFIGURE(config))                                          \
    CASE(sixty_five_bytes, SIGSEGV, config.row_bytes[2] = 65; AMX_CONFIGURE(config))                                   \
    CASE(bytes_without_rows, SIGSEGV, config.rows[2] = 0; AMX_CONFIGURE(config))                                       \
    CASE(a_ninth_tile, SIGSEGV, config.rows[8] = 16; config.row_bytes[8] = 64; AMX_CONFIGURE(config))                  \
    CASE(a_tile_left_out, 0, config.rows[7] = 0; config.row_bytes[7] = 0; AMX_CONFIGURE(config); AMX_ZERO(0))          \
    CASE(use_of_a_tile_left_out, SIGILL, config.rows[7] = 0; config.row_bytes[7] = 0; AMX_CONFIGURE(config);           \
         AMX_ZERO(7))                                                                                                  \
    CASE(start_past_the_end, SIGILL, config.start_row = 16; AMX_CONFIGURE(config); AMX_LOAD(0, memory, 64))            \
    CASE(the_same_tile_twice, SIGILL, AMX_CONFIGURE(config); __asm__ volatile(".byte 0xc4,0xe2,0x72,0x5c,0xc0"))       \
    CASE(one_tile_as_both_operands, SIGILL, AMX_CONFIGURE(config); __asm__ volatile(".byte 0xc4,0xe2,0x73,0x5e,0xc1")) \
    CASE(rows_that_differ, SIGILL, config.rows[1] = 15; AMX_CONFIGURE(config); AMX_DOT("tdpbf16ps", 0, 1, 2))          \
    CASE(columns_that_differ, SIGILL, config.row_bytes[2] = 60; AMX_CONFIGURE(config); AMX_DOT("tdpbf16ps", 0, 1, 2))  \
    CASE(depths_that_differ, SIGILL, config.row_bytes[1] = 60; AMX_CONFIGURE(config); AMX_DOT("tdpbsud", 0, 1, 2))     \
    CASE(columns_of_half_a_sum, SIGILL, config.row_bytes[0] = config.row_bytes[2] = 62; AMX_CONFIGURE(config);         \
         AMX_DOT("tdpbf16ps", 0, 1, 2))                                                                                \
    CASE(load_from_nowhere, SIGSEGV, AMX_CONFIGURE(config); AMX_LOAD(0, (uint8_t *)16, 64))                            \
    CASE(store_to_nowhere, SIGSEGV, AMX_CONFIGURE(config); AMX_STORE(0, (uint8_t *)16, 64))                            \
    CASE(a_prefix_that_none_has, SIGILL, AMX_CONFIGURE(config); __asm__ volatile(".byte 0xc4,0xe2,0x68,0x5c,0xc1"))    \
    CASE(not_amx_at_all, SIGILL, AMX_CONFIGURE(config); __asm__ volatile("ud2"))

#define DEFINE(name, signal_number, ...) \
    static void name(void)               \
    {                                    \
        __VA_ARGS__;                     \
    }
CASES(DEFINE)

const amx_fault_case *amx_fault_cases(size_t *n)
{
#define ROW(name, signal_number, ...) { #name, signal_number, name },
    static const amx_fault_case cases[] = { CASES(ROW) };
    *n = sizeof cases / sizeof *cases;
    return cases;
}

int amx_signal_of(void (*run)(void))
{
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        config = amx_config_full();
        run();
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
