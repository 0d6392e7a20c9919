#include "tokenizer/characters.h"

#include <utf8proc.h>

typedef struct {
    int32_t first, last;
} range;

/* Marks that are in utf8proc 2.8 (Unicode 15) and not in the library's table, of Unicode 9: found by asking both of every
 * code point. */
static const range NEWER_MARKS[] = {
    { 0x07FD, 0x07FD },   { 0x0898, 0x089F },   { 0x08CA, 0x08D3 },   { 0x09FE, 0x09FE },   { 0x0AFA, 0x0AFF },
    { 0x0B55, 0x0B55 },   { 0x0C04, 0x0C04 },   { 0x0C3C, 0x0C3C },   { 0x0CF3, 0x0CF3 },   { 0x0D00, 0x0D00 },
    { 0x0D3B, 0x0D3C },   { 0x0D81, 0x0D81 },   { 0x0EBA, 0x0EBA },   { 0x0ECE, 0x0ECE },   { 0x1715, 0x1715 },
    { 0x180F, 0x180F },   { 0x1ABF, 0x1ACE },   { 0x1CF7, 0x1CF7 },   { 0x1DF6, 0x1DFA },   { 0xA82C, 0xA82C },
    { 0xA8FF, 0xA8FF },   { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC }, { 0x10EFD, 0x10EFF }, { 0x10F46, 0x10F50 },
    { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x11073, 0x11074 }, { 0x110C2, 0x110C2 }, { 0x11145, 0x11146 },
    { 0x111C9, 0x111C9 }, { 0x111CE, 0x111CF }, { 0x11241, 0x11241 }, { 0x1133B, 0x1133B }, { 0x1145E, 0x1145E },
    { 0x1182C, 0x1183A }, { 0x11930, 0x11935 }, { 0x11937, 0x11938 }, { 0x1193B, 0x1193E }, { 0x11940, 0x11940 },
    { 0x11942, 0x11943 }, { 0x119D1, 0x119D7 }, { 0x119DA, 0x119E0 }, { 0x119E4, 0x119E4 }, { 0x11A01, 0x11A0A },
    { 0x11A33, 0x11A39 }, { 0x11A3B, 0x11A3E }, { 0x11A47, 0x11A47 }, { 0x11A51, 0x11A5B }, { 0x11A8A, 0x11A99 },
    { 0x11D31, 0x11D36 }, { 0x11D3A, 0x11D3A }, { 0x11D3C, 0x11D3D }, { 0x11D3F, 0x11D45 }, { 0x11D47, 0x11D47 },
    { 0x11D8A, 0x11D8E }, { 0x11D90, 0x11D91 }, { 0x11D93, 0x11D97 }, { 0x11EF3, 0x11EF6 }, { 0x11F00, 0x11F01 },
    { 0x11F03, 0x11F03 }, { 0x11F34, 0x11F3A }, { 0x11F3E, 0x11F42 }, { 0x13440, 0x13440 }, { 0x13447, 0x13455 },
    { 0x16F4F, 0x16F4F }, { 0x16F7F, 0x16F87 }, { 0x16FE4, 0x16FE4 }, { 0x16FF0, 0x16FF1 }, { 0x1CF00, 0x1CF2D },
    { 0x1CF30, 0x1CF46 }, { 0x1E08F, 0x1E08F }, { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE }, { 0x1E2EC, 0x1E2EF },
    { 0x1E4EC, 0x1E4EF }
};

/* Lower cases that came after utf8proc 2.8, as the library (Unicode 17) has them; found in the same way. */
static const struct {
    range upper;
    int32_t lower; /* of the first */
} NEWER_LOWER_CASES[] = {
    { { 0x1C89, 0x1C89 }, 0x1C8A },    { { 0xA7CB, 0xA7CB }, 0x0264 }, { { 0xA7CC, 0xA7CC }, 0xA7CD },
    { { 0xA7CE, 0xA7CE }, 0xA7CF },    { { 0xA7D2, 0xA7D2 }, 0xA7D3 }, { { 0xA7D4, 0xA7D4 }, 0xA7D5 },
    { { 0xA7DA, 0xA7DA }, 0xA7DB },    { { 0xA7DC, 0xA7DC }, 0x019B }, { { 0x10D50, 0x10D65 }, 0x10D70 },
    { { 0x16EA0, 0x16EB8 }, 0x16EBB },
};

bool pf_is_white_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* The circled and squared letters are alphabetic without being letters. */
bool pf_is_word(int32_t c)
{
    if (c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
        (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189))
        return true;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
    }
}

static bool is_newer_mark(int32_t c)
{
    size_t low = 0, high = sizeof NEWER_MARKS / sizeof *NEWER_MARKS;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c < NEWER_MARKS[middle].first)
            high = middle;
        else if (c > NEWER_MARKS[middle].last)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

bool pf_is_mark(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return !is_newer_mark(c);
    default: return c == 0x1CF2 || c == 0x1CF3; /* letters since */
    }
}

int32_t pf_lower_case(int32_t c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
    for (size_t i = 0; i < sizeof NEWER_LOWER_CASES / sizeof *NEWER_LOWER_CASES; i++) {
        const range upper = NEWER_LOWER_CASES[i].upper;
        if (c >= upper.first && c <= upper.last) return NEWER_LOWER_CASES[i].lower + (c - upper.first);
    }
    return utf8proc_tolower(c);
}
