#include "tokenizer/unicode/characters.h"

#include <string.h>
#include <utf8proc.h>

#include "tokenizer/unicode/newer_characters.h"

/* Lower cases of Unicode 17, the library's version, that utf8proc 2.8 lacks. Found by comparing both at every code point. */
static const struct {
    pf_character_range upper;
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

static bool is_newer_word(int32_t c)
{
    const char *category = pf_newer_category(c);
    return category[0] == 'L' || category[0] == 'M' || strcmp(category, "Nd") == 0;
}

/* Circled and squared letters have the property Alphabetic and no letter category. */
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
    case UTF8PROC_CATEGORY_CN: return is_newer_word(c);
    default: return false;
    }
}

bool pf_is_mark(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return !pf_is_newer_mark(c);
    default: return c == 0x1CF2 || c == 0x1CF3; /* marks in Unicode 9, letters since */
    }
}

int32_t pf_lower_case(int32_t c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
    for (size_t i = 0; i < sizeof NEWER_LOWER_CASES / sizeof *NEWER_LOWER_CASES; i++) {
        const pf_character_range upper = NEWER_LOWER_CASES[i].upper;
        if (c >= upper.first && c <= upper.last) return NEWER_LOWER_CASES[i].lower + (c - upper.first);
    }
    return utf8proc_tolower(c);
}
