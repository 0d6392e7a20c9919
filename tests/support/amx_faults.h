/* AMX instructions one by one, and what must fault: for the emulator's own test, and for a machine that has AMX. */
#ifndef PF_TESTS_AMX_FAULTS_H
#define PF_TESTS_AMX_FAULTS_H

#include <stddef.h>
#include <stdint.h>

/* What LDTILECFG reads. */
typedef struct {
    _Alignas(64) uint8_t palette;
    uint8_t start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} amx_config;

/* All eight tiles, 16 rows of 64 bytes. */
static inline amx_config amx_config_full(void)
{
    amx_config c = { .palette = 1 };
    for (int t = 0; t < 8; t++) {
        c.rows[t] = 16;
        c.row_bytes[t] = 64;
    }
    return c;
}

/* Tiles are numbered by literals. */
#define AMX_CONFIGURE(c)       __asm__ volatile("ldtilecfg %0" : : "m"(c) : "memory")
#define AMX_STORE_CONFIG(c)    __asm__ volatile("sttilecfg %0" : "=m"(c) : : "memory")
#define AMX_RELEASE()          __asm__ volatile("tilerelease" : : : "memory")
#define AMX_ZERO(t)            __asm__ volatile("tilezero %%tmm" #t : : : "memory")
#define AMX_LOAD(t, p, stride) AMX_LOAD_AS("tileloadd", t, p, stride, )
#define AMX_LOAD_AS(name, t, p, stride, displacement) \
    __asm__ volatile(name " " #displacement "(%0,%1), %%tmm" #t : : "r"(p), "r"((size_t)(stride)) : "memory")
#define AMX_STORE(t, p, stride) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1)" : : "r"(p), "r"((size_t)(stride)) : "memory")
#define AMX_DOT(name, sum, a, b) __asm__ volatile(name " %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : : : "memory")

typedef struct {
    const char *name;
    int signal; /* 0: none */
    void (*run)(void);
} amx_fault_case;

/* A static table. */
const amx_fault_case *amx_fault_cases(size_t *n);

/* The signal that ends a child which does this; 0 when none does. Handlers of SIGSEGV are put aside in the child. */
int amx_signal_of(void (*run)(void));

#endif
