#include "tests/support/amx_trap.h"

#include "kernels/cpu.h"

pf_isa __real_pf_cpu_best_isa(void);
pf_isa __wrap_pf_cpu_best_isa(void);

pf_isa __wrap_pf_cpu_best_isa(void)
{
    return amx_trap_works() ? PF_ISA_AMX : __real_pf_cpu_best_isa();
}

#ifdef __x86_64__
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "tests/support/amx_tiles.h"

/* initial-exec: a signal handler must not allocate its thread's variables. */
static __thread amx_tiles tiles __attribute__((tls_model("initial-exec")));
enum { CONFIGURE, RELEASE, ZERO, LOAD, STORE, MULTIPLY, N_KINDS };

static atomic_uint_fast64_t counts[N_KINDS], moved_rows[N_KINDS];

amx_counts amx_trap_counts(void)
{
    return (amx_counts){ .configures = counts[CONFIGURE],
                         .releases = counts[RELEASE],
                         .zeros = counts[ZERO],
                         .loads = counts[LOAD],
                         .stores = counts[STORE],
                         .multiplies = counts[MULTIPLY],
                         .loaded_rows = moved_rows[LOAD],
                         .stored_rows = moved_rows[STORE] };
}

void amx_trap_reset(void)
{
    for (int i = 0; i < N_KINDS; i++) counts[i] = moved_rows[i] = 0;
}

/* --- decoding: Intel SDM volume 2, sections 2.1.5 (ModRM, SIB), 2.3.5 (VEX) --- */

/* A three-byte VEX instruction of map 0F38. */
typedef struct {
    const uint8_t *code;
    int length;
    uint8_t opcode, pp; /* pp: the prefix it stands for: none, 66, F3, F2 */
    uint8_t mod, rm;    /* rm and reg with their fourth bits */
    uint8_t reg;
    uint8_t vvvv;
    bool w, l, has_sib;
    uintptr_t base;   /* base + displacement */
    ptrdiff_t stride; /* index << scale */
} instruction;

static uintptr_t general(const greg_t *registers, int number)
{
    static const int order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
    return (uintptr_t)registers[order[number]];
}

static int32_t displacement(const uint8_t *at, int bytes)
{
    int32_t d = 0;
    if (bytes == 1) return (int8_t)*at;
    if (bytes == 4) __builtin_memcpy(&d, at, sizeof d);
    return d;
}

/* The memory operand, from behind the ModRM byte on. */
static void decode_memory(instruction *i, const greg_t *registers, int rm, int b, int x)
{
    int n_displacement = i->mod == 1 ? 1 : i->mod == 2 ? 4 : 0;
    bool has_base = true, from_next = false;
    int base = rm | b;
    if (rm == 4) {
        const uint8_t sib = i->code[i->length++];
        const int index = (sib >> 3 & 7) | x;
        i->has_sib = true;
        base = (sib & 7) | b;
        has_base = !((sib & 7) == 5 && i->mod == 0);
        if (index != 4) i->stride = (ptrdiff_t)(general(registers, index) << (sib >> 6));
    } else if (rm == 5 && i->mod == 0) {
        has_base = false;
        from_next = true;
    }
    if (!has_base) n_displacement = 4;
    i->base = (has_base ? general(registers, base) : 0) +
              (uintptr_t)(intptr_t)displacement(i->code + i->length, n_displacement);
    i->length += n_displacement;
    if (from_next) i->base += (uintptr_t)(i->code + i->length);
}

static bool decode(const uint8_t *code, const greg_t *registers, instruction *out)
{
    if (code[0] != 0xC4 || (code[1] & 31) != 2) return false;
    const int r = code[1] & 0x80 ? 0 : 8, x = code[1] & 0x40 ? 0 : 8, b = code[1] & 0x20 ? 0 : 8;
    instruction i = { .code = code, .length = 5, .opcode = code[3], .pp = code[2] & 3, .mod = code[4] >> 6 };
    i.w = code[2] & 0x80;
    i.l = code[2] & 4;
    i.vvvv = ~code[2] >> 3 & 15;
    i.reg = (uint8_t)((code[4] >> 3 & 7) | r);
    i.rm = (uint8_t)((code[4] & 7) | b);
    if (i.mod != 3) decode_memory(&i, registers, code[4] & 7, b, x);
    *out = i;
    return true;
}

/* --- doing --- */

/* LDTILECFG, STTILECFG, TILERELEASE, TILEZERO. */
static amx_outcome do_configuration(const instruction *i, int *kind)
{
    const uintptr_t address = i->base + (uintptr_t)i->stride;
    if (i->vvvv) return AMX_UNDEFINED;
    *kind = CONFIGURE;
    if (i->mod != 3 && i->reg == 0 && i->pp == 0) return amx_load_config(&tiles, (const uint8_t *)address);
    if (i->mod != 3 && i->reg == 0 && i->pp == 1) return amx_store_config(&tiles, (uint8_t *)address);
    *kind = RELEASE;
    if (i->mod == 3 && i->pp == 0 && i->reg == 0 && i->rm == 0) return amx_release(&tiles);
    *kind = ZERO;
    if (i->mod == 3 && i->pp == 3 && i->rm == 0) return amx_zero(&tiles, i->reg);
    return AMX_UNDEFINED;
}

/* TILELOADD, TILELOADDT1, TILESTORED. */
static amx_outcome do_move(const instruction *i, int *kind)
{
    if (!i->has_sib || i->vvvv || i->pp == 0) return AMX_UNDEFINED;
    *kind = i->pp == 2 ? STORE : LOAD;
    if (i->pp == 2) return amx_store(&tiles, i->reg, (uint8_t *)i->base, i->stride);
    return amx_load(&tiles, i->reg, (const uint8_t *)i->base, i->stride);
}

static amx_outcome emulate(const instruction *i, int *kind)
{
    if (i->w || i->l) return AMX_UNDEFINED;
    *kind = MULTIPLY;
    switch (i->opcode) {
    case 0x49: return do_configuration(i, kind);
    case 0x4B: return do_move(i, kind);
    case 0x5C: return i->mod == 3 && i->pp == 2 ? amx_dot_bf16(&tiles, i->reg, i->rm, i->vvvv) : AMX_UNDEFINED;
    case 0x5E: return i->mod == 3 ? amx_dot_int8(&tiles, i->reg, i->rm, i->vvvv, i->pp >= 2, i->pp & 1) : AMX_UNDEFINED;
    default: return AMX_UNDEFINED;
    }
}

/* A tile operand that the address of a load or a store makes fault must find RIP at its own instruction: so it moves
 * with each. */
static void on_illegal(int signal_number, siginfo_t *info, void *context)
{
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const int saved_errno = errno;
    for (bool first = true;; first = false) {
        instruction i;
        int kind = 0;
        const bool known = decode((const uint8_t *)registers[REG_RIP], registers, &i);
        const amx_outcome outcome = known ? emulate(&i, &kind) : AMX_UNDEFINED;
        if (outcome != AMX_DONE) {
            if (!first) break; /* it comes back here by itself, if it is illegal at all */
            if (outcome == AMX_PROTECTION)
                raise(SIGSEGV);
            else
                signal(signal_number, SIG_DFL); /* and it is illegal again */
            break;
        }
        counts[kind]++;
        if (kind == LOAD || kind == STORE) moved_rows[kind] += tiles.rows[i.reg];
        registers[REG_RIP] += i.length;
    }
    errno = saved_errno;
}

bool amx_trap_works(void)
{
    const pf_isa best = __real_pf_cpu_best_isa();
    if (best < PF_ISA_AVX512BF16 || best >= PF_ISA_AMX) return false;
    struct sigaction action = { .sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO | SA_NODEFER };
    sigemptyset(&action.sa_mask);
    return sigaction(SIGILL, &action, NULL) == 0;
}
#else
bool amx_trap_works(void)
{
    return false;
}

amx_counts amx_trap_counts(void)
{
    return (amx_counts){ 0 };
}

void amx_trap_reset(void) {}
#endif
