/* The instruction sets that are both in the processor and switched on by the system. Off x86-64: scalar alone. */
#include "kernels/cpu.h"

#include <string.h>

static const char *const isa_names[PF_N_ISAS] = {
    [PF_ISA_SCALAR] = "scalar",         [PF_ISA_AVX2] = "avx2", [PF_ISA_AVX512] = "avx512",
    [PF_ISA_AVX512BF16] = "avx512bf16", [PF_ISA_AMX] = "amx",
};

const char *pf_isa_name(pf_isa isa)
{
    return isa_names[isa];
}

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a set needs: bits of CPUID, and of XCR0, the register state that the system saves.
 * Source: Intel SDM volume 1, sections 14.3, 15.2 to 15.4 and 18.3. */
enum {
    XCR0_YMM = 0x06,      /* XMM, upper halves of YMM */
    XCR0_ZMM = 0xE6,      /* and opmask, upper halves of ZMM0-15, ZMM16-31 */
    XCR0_TILES = 0x60000, /* the configuration of AMX tiles, and their data */
};

/* Linux, Documentation/arch/x86/xstate.rst. */
enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool all_set(uint64_t bits, uint64_t wanted)
{
    return (bits & wanted) == wanted;
}

/* Whether this process may use the tiles. Asking again changes nothing. */
static bool system_gives_tiles(void)
{
#ifdef __linux__
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return false;
#endif
}

static pf_isa best_isa_of_machine(void)
{
    unsigned a, b, c, d, b7, c7, d7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all_set(c, bit_OSXSAVE)) return PF_ISA_SCALAR;
    const uint64_t xcr0 = read_xcr0();
    if (!all_set(c, bit_AVX | bit_FMA | bit_F16C) || !all_set(xcr0, XCR0_YMM)) return PF_ISA_SCALAR;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !all_set(b7, bit_AVX2)) return PF_ISA_SCALAR;
    if (!all_set(b7, bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL)) return PF_ISA_AVX2;
    if (!all_set(xcr0, XCR0_ZMM)) return PF_ISA_AVX2;
    const unsigned avx512_bf16 = 1u << 5; /* leaf 7, subleaf 1, EAX; subleaves that do not exist read as 0 */
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !all_set(a, avx512_bf16)) return PF_ISA_AVX512;
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, amx_int8 = 1u << 25; /* leaf 7, subleaf 0, EDX */
    if (!all_set(d7, amx_bf16 | amx_tile | amx_int8) || !all_set(xcr0, XCR0_TILES)) return PF_ISA_AVX512BF16;
    return system_gives_tiles() ? PF_ISA_AMX : PF_ISA_AVX512BF16;
}

pf_isa pf_cpu_best_isa(void)
{
    const pf_isa best = best_isa_of_machine();
#ifdef PF_CPU_HIGHEST_ISA /* a sanitizer build: kernels above it are not instrumented */
    if (best > PF_CPU_HIGHEST_ISA) return PF_CPU_HIGHEST_ISA;
#endif
    return best;
}

static bool is_made_by(unsigned ebx, unsigned ecx, unsigned edx)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0, &a, &b, &c, &d) && b == ebx && c == ecx && d == edx;
}

static bool is_intel(void)
{
    return is_made_by(signature_INTEL_ebx, signature_INTEL_ecx, signature_INTEL_edx);
}

/* Family 19h: 0Fh of the base family and Ah of the extended one. */
static bool is_zen3_or_zen4(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!is_made_by(signature_AMD_ebx, signature_AMD_ecx, signature_AMD_edx)) return false;
    return __get_cpuid(1, &a, &b, &c, &d) && (a >> 8 & 0xf) == 0xf && (a >> 20 & 0xff) == 0xa;
}

uint32_t pf_cpu_features(void)
{
    const pf_isa best = pf_cpu_best_isa();
    const bool intel = is_intel();
    const unsigned avx_vnni = 1u << 4, avx512_vnni = 1u << 11; /* leaf 7: subleaf 1, EAX; subleaf 0, ECX */
    const unsigned amx_fp16 = 1u << 21; /* subleaf 1, EAX: Granite Rapids has it, those before do not */
    unsigned a = 0, b, c, d;
    uint32_t features = 0;
    if (best >= PF_ISA_AVX2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && all_set(a, avx_vnni))
        features |= PF_FEATURE_AVX_VNNI;
    if (intel && best >= PF_ISA_AMX && !all_set(a, amx_fp16)) features |= PF_FEATURE_FETCH_TILED;
    if (best >= PF_ISA_AVX512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && all_set(c, avx512_vnni))
        features |= PF_FEATURE_AVX512_VNNI;
    if (intel) features |= PF_FEATURE_FETCH_NEAR;
    if (is_zen3_or_zen4()) features |= PF_FEATURE_FETCH_SHORT;
    return features;
}
#else
uint32_t pf_cpu_features(void)
{
    return 0;
}

pf_isa pf_cpu_best_isa(void)
{
    return PF_ISA_SCALAR;
}
#endif

pf_status pf_isa_check(pf_isa isa, pf_isa best, pf_error *error)
{
    if (isa <= best) return PF_OK;
    return pf_fail(error, PF_UNSUPPORTED, "isa %s: this machine lacks it, its best is %s", isa_names[isa],
                   isa_names[best]);
}

pf_status pf_isa_parse(const char *text, pf_isa *out, pf_error *error)
{
    const pf_isa best = pf_cpu_best_isa();
    if (strcmp(text, "auto") == 0) {
        *out = best;
        return PF_OK;
    }
    for (pf_isa isa = PF_ISA_SCALAR; isa < PF_N_ISAS; isa++) {
        if (strcmp(text, isa_names[isa]) != 0) continue;
        PF_TRY(pf_isa_check(isa, best, error));
        *out = isa;
        return PF_OK;
    }
    return pf_fail(error, PF_INVALID, "isa \"%s\" is not known, expected auto, scalar, avx2, avx512, avx512bf16 or amx",
                   text);
}
