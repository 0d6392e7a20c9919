#include "tokenizer/unicode/newer_characters.h"

#include <string.h>
#include <strings.h>

#include "tokenizer/unicode/character_bytes.h"

typedef struct {
    pf_character_range range;
    const char *property;
} newer;

/* Characters of Unicode 15.0, 15.1 and 16.0: CATEGORIES by general category, sorted; PROPERTIES by name, then sorted. Found
 * by matching \p{...} at every code point with Hugging Face's library (Oniguruma, Unicode 16) and PCRE2 10.42. */
/* clang-format off */
static const newer CATEGORIES[] = {
    { { 0x0897, 0x0897 }, "Mn" }, { { 0x0CF3, 0x0CF3 }, "Mc" }, { { 0x0ECE, 0x0ECE }, "Mn" },
    { { 0x1B4E, 0x1B4F }, "Po" }, { { 0x1B7F, 0x1B7F }, "Po" }, { { 0x1C89, 0x1C89 }, "Lu" },
    { { 0x1C8A, 0x1C8A }, "Ll" }, { { 0x2427, 0x2429 }, "So" }, { { 0x2FFC, 0x2FFF }, "So" },
    { { 0x31E4, 0x31E5 }, "So" }, { { 0x31EF, 0x31EF }, "So" }, { { 0xA7CB, 0xA7CC }, "Lu" },
    { { 0xA7CD, 0xA7CD }, "Ll" }, { { 0xA7DA, 0xA7DA }, "Lu" }, { { 0xA7DB, 0xA7DB }, "Ll" },
    { { 0xA7DC, 0xA7DC }, "Lu" }, { { 0x105C0, 0x105F3 }, "Lo" }, { { 0x10D40, 0x10D49 }, "Nd" },
    { { 0x10D4A, 0x10D4D }, "Lo" }, { { 0x10D4E, 0x10D4E }, "Lm" }, { { 0x10D4F, 0x10D4F }, "Lo" },
    { { 0x10D50, 0x10D65 }, "Lu" }, { { 0x10D69, 0x10D6D }, "Mn" }, { { 0x10D6E, 0x10D6E }, "Pd" },
    { { 0x10D6F, 0x10D6F }, "Lm" }, { { 0x10D70, 0x10D85 }, "Ll" }, { { 0x10D8E, 0x10D8F }, "Sm" },
    { { 0x10EC2, 0x10EC4 }, "Lo" }, { { 0x10EFC, 0x10EFF }, "Mn" }, { { 0x1123F, 0x11240 }, "Lo" },
    { { 0x11241, 0x11241 }, "Mn" }, { { 0x11380, 0x11389 }, "Lo" }, { { 0x1138B, 0x1138B }, "Lo" },
    { { 0x1138E, 0x1138E }, "Lo" }, { { 0x11390, 0x113B5 }, "Lo" }, { { 0x113B7, 0x113B7 }, "Lo" },
    { { 0x113B8, 0x113BA }, "Mc" }, { { 0x113BB, 0x113C0 }, "Mn" }, { { 0x113C2, 0x113C2 }, "Mc" },
    { { 0x113C5, 0x113C5 }, "Mc" }, { { 0x113C7, 0x113CA }, "Mc" }, { { 0x113CC, 0x113CD }, "Mc" },
    { { 0x113CE, 0x113CE }, "Mn" }, { { 0x113CF, 0x113CF }, "Mc" }, { { 0x113D0, 0x113D0 }, "Mn" },
    { { 0x113D1, 0x113D1 }, "Lo" }, { { 0x113D2, 0x113D2 }, "Mn" }, { { 0x113D3, 0x113D3 }, "Lo" },
    { { 0x113D4, 0x113D5 }, "Po" }, { { 0x113D7, 0x113D8 }, "Po" }, { { 0x113E1, 0x113E2 }, "Mn" },
    { { 0x116D0, 0x116E3 }, "Nd" }, { { 0x11B00, 0x11B09 }, "Po" }, { { 0x11BC0, 0x11BE0 }, "Lo" },
    { { 0x11BE1, 0x11BE1 }, "Po" }, { { 0x11BF0, 0x11BF9 }, "Nd" }, { { 0x11F00, 0x11F01 }, "Mn" },
    { { 0x11F02, 0x11F02 }, "Lo" }, { { 0x11F03, 0x11F03 }, "Mc" }, { { 0x11F04, 0x11F10 }, "Lo" },
    { { 0x11F12, 0x11F33 }, "Lo" }, { { 0x11F34, 0x11F35 }, "Mc" }, { { 0x11F36, 0x11F3A }, "Mn" },
    { { 0x11F3E, 0x11F3F }, "Mc" }, { { 0x11F40, 0x11F40 }, "Mn" }, { { 0x11F41, 0x11F41 }, "Mc" },
    { { 0x11F42, 0x11F42 }, "Mn" }, { { 0x11F43, 0x11F4F }, "Po" }, { { 0x11F50, 0x11F59 }, "Nd" },
    { { 0x11F5A, 0x11F5A }, "Mn" }, { { 0x1342F, 0x1342F }, "Lo" }, { { 0x13439, 0x1343F }, "Cf" },
    { { 0x13440, 0x13440 }, "Mn" }, { { 0x13441, 0x13446 }, "Lo" }, { { 0x13447, 0x13455 }, "Mn" },
    { { 0x13460, 0x143FA }, "Lo" }, { { 0x16100, 0x1611D }, "Lo" }, { { 0x1611E, 0x16129 }, "Mn" },
    { { 0x1612A, 0x1612C }, "Mc" }, { { 0x1612D, 0x1612F }, "Mn" }, { { 0x16130, 0x16139 }, "Nd" },
    { { 0x16D40, 0x16D42 }, "Lm" }, { { 0x16D43, 0x16D6A }, "Lo" }, { { 0x16D6B, 0x16D6C }, "Lm" },
    { { 0x16D6D, 0x16D6F }, "Po" }, { { 0x16D70, 0x16D79 }, "Nd" }, { { 0x18CFF, 0x18CFF }, "Lo" },
    { { 0x1B132, 0x1B132 }, "Lo" }, { { 0x1B155, 0x1B155 }, "Lo" }, { { 0x1CC00, 0x1CCEF }, "So" },
    { { 0x1CCF0, 0x1CCF9 }, "Nd" }, { { 0x1CD00, 0x1CEB3 }, "So" }, { { 0x1D2C0, 0x1D2D3 }, "No" },
    { { 0x1DF25, 0x1DF2A }, "Ll" }, { { 0x1E030, 0x1E06D }, "Lm" }, { { 0x1E08F, 0x1E08F }, "Mn" },
    { { 0x1E4D0, 0x1E4EA }, "Lo" }, { { 0x1E4EB, 0x1E4EB }, "Lm" }, { { 0x1E4EC, 0x1E4EF }, "Mn" },
    { { 0x1E4F0, 0x1E4F9 }, "Nd" }, { { 0x1E5D0, 0x1E5ED }, "Lo" }, { { 0x1E5EE, 0x1E5EF }, "Mn" },
    { { 0x1E5F0, 0x1E5F0 }, "Lo" }, { { 0x1E5F1, 0x1E5FA }, "Nd" }, { { 0x1E5FF, 0x1E5FF }, "Po" },
    { { 0x1F6DC, 0x1F6DC }, "So" }, { { 0x1F774, 0x1F776 }, "So" }, { { 0x1F77B, 0x1F77F }, "So" },
    { { 0x1F7D9, 0x1F7D9 }, "So" }, { { 0x1F8B2, 0x1F8BB }, "So" }, { { 0x1F8C0, 0x1F8C1 }, "So" },
    { { 0x1FA75, 0x1FA77 }, "So" }, { { 0x1FA87, 0x1FA89 }, "So" }, { { 0x1FA8F, 0x1FA8F }, "So" },
    { { 0x1FAAD, 0x1FAAF }, "So" }, { { 0x1FABB, 0x1FABF }, "So" }, { { 0x1FAC6, 0x1FAC6 }, "So" },
    { { 0x1FACE, 0x1FACF }, "So" }, { { 0x1FADA, 0x1FADC }, "So" }, { { 0x1FADF, 0x1FADF }, "So" },
    { { 0x1FAE8, 0x1FAE9 }, "So" }, { { 0x1FAF7, 0x1FAF8 }, "So" }, { { 0x1FBCB, 0x1FBEF }, "So" },
    { { 0x2B739, 0x2B739 }, "Lo" }, { { 0x2EBF0, 0x2EE5D }, "Lo" }, { { 0x31350, 0x323AF }, "Lo" },
};

static const newer PROPERTIES[] = {
    { { 0x0363, 0x036F }, "Alphabetic" }, { { 0x0897, 0x0897 }, "Alphabetic" }, { { 0x0C04, 0x0C04 }, "Alphabetic" },
    { { 0x0CF3, 0x0CF3 }, "Alphabetic" }, { { 0x0F82, 0x0F83 }, "Alphabetic" }, { { 0x1C89, 0x1C8A }, "Alphabetic" },
    { { 0x1DD3, 0x1DE6 }, "Alphabetic" }, { { 0xA7CB, 0xA7CD }, "Alphabetic" }, { { 0xA7DA, 0xA7DC }, "Alphabetic" },
    { { 0x105C0, 0x105F3 }, "Alphabetic" }, { { 0x10D4A, 0x10D65 }, "Alphabetic" },
    { { 0x10D69, 0x10D69 }, "Alphabetic" }, { { 0x10D6F, 0x10D85 }, "Alphabetic" },
    { { 0x10EC2, 0x10EC4 }, "Alphabetic" }, { { 0x10EFC, 0x10EFC }, "Alphabetic" },
    { { 0x11080, 0x11081 }, "Alphabetic" }, { { 0x1123F, 0x11241 }, "Alphabetic" },
    { { 0x11380, 0x11389 }, "Alphabetic" }, { { 0x1138B, 0x1138B }, "Alphabetic" },
    { { 0x1138E, 0x1138E }, "Alphabetic" }, { { 0x11390, 0x113B5 }, "Alphabetic" },
    { { 0x113B7, 0x113C0 }, "Alphabetic" }, { { 0x113C2, 0x113C2 }, "Alphabetic" },
    { { 0x113C5, 0x113C5 }, "Alphabetic" }, { { 0x113C7, 0x113CA }, "Alphabetic" },
    { { 0x113CC, 0x113CD }, "Alphabetic" }, { { 0x113D1, 0x113D1 }, "Alphabetic" },
    { { 0x113D3, 0x113D3 }, "Alphabetic" }, { { 0x11BC0, 0x11BE0 }, "Alphabetic" },
    { { 0x11F00, 0x11F10 }, "Alphabetic" }, { { 0x11F12, 0x11F3A }, "Alphabetic" },
    { { 0x11F3E, 0x11F40 }, "Alphabetic" }, { { 0x1342F, 0x1342F }, "Alphabetic" },
    { { 0x13441, 0x13446 }, "Alphabetic" }, { { 0x13460, 0x143FA }, "Alphabetic" },
    { { 0x16100, 0x1612E }, "Alphabetic" }, { { 0x16D40, 0x16D6C }, "Alphabetic" },
    { { 0x18CFF, 0x18CFF }, "Alphabetic" }, { { 0x1B132, 0x1B132 }, "Alphabetic" },
    { { 0x1B155, 0x1B155 }, "Alphabetic" }, { { 0x1DF25, 0x1DF2A }, "Alphabetic" },
    { { 0x1E030, 0x1E06D }, "Alphabetic" }, { { 0x1E08F, 0x1E08F }, "Alphabetic" },
    { { 0x1E4D0, 0x1E4EB }, "Alphabetic" }, { { 0x1E5D0, 0x1E5ED }, "Alphabetic" },
    { { 0x1E5F0, 0x1E5F0 }, "Alphabetic" }, { { 0x2B739, 0x2B739 }, "Alphabetic" },
    { { 0x2EBF0, 0x2EE5D }, "Alphabetic" }, { { 0x31350, 0x323AF }, "Alphabetic" }, { { 0x0897, 0x0897 }, "Arabic" },
    { { 0x10EC2, 0x10EC4 }, "Arabic" }, { { 0x10EFC, 0x10EFF }, "Arabic" }, { { 0x1B4E, 0x1B4F }, "Balinese" },
    { { 0x1B7F, 0x1B7F }, "Balinese" }, { { 0x2427, 0x2429 }, "Common" }, { { 0x2FFC, 0x2FFF }, "Common" },
    { { 0x31E4, 0x31E5 }, "Common" }, { { 0x31EF, 0x31EF }, "Common" }, { { 0x1CC00, 0x1CCF9 }, "Common" },
    { { 0x1CD00, 0x1CEB3 }, "Common" }, { { 0x1D2C0, 0x1D2D3 }, "Common" }, { { 0x1F6DC, 0x1F6DC }, "Common" },
    { { 0x1F774, 0x1F776 }, "Common" }, { { 0x1F77B, 0x1F77F }, "Common" }, { { 0x1F7D9, 0x1F7D9 }, "Common" },
    { { 0x1F8B2, 0x1F8BB }, "Common" }, { { 0x1F8C0, 0x1F8C1 }, "Common" }, { { 0x1FA75, 0x1FA77 }, "Common" },
    { { 0x1FA87, 0x1FA89 }, "Common" }, { { 0x1FA8F, 0x1FA8F }, "Common" }, { { 0x1FAAD, 0x1FAAF }, "Common" },
    { { 0x1FABB, 0x1FABF }, "Common" }, { { 0x1FAC6, 0x1FAC6 }, "Common" }, { { 0x1FACE, 0x1FACF }, "Common" },
    { { 0x1FADA, 0x1FADC }, "Common" }, { { 0x1FADF, 0x1FADF }, "Common" }, { { 0x1FAE8, 0x1FAE9 }, "Common" },
    { { 0x1FAF7, 0x1FAF8 }, "Common" }, { { 0x1FBCB, 0x1FBEF }, "Common" }, { { 0x1C89, 0x1C8A }, "Cyrillic" },
    { { 0x1E030, 0x1E06D }, "Cyrillic" }, { { 0x1E08F, 0x1E08F }, "Cyrillic" },
    { { 0x11B00, 0x11B09 }, "Devanagari" }, { { 0x1342F, 0x1342F }, "Egyptian_Hieroglyphs" },
    { { 0x13439, 0x13455 }, "Egyptian_Hieroglyphs" }, { { 0x13460, 0x143FA }, "Egyptian_Hieroglyphs" },
    { { 0x1F6DC, 0x1F6DC }, "Emoji" }, { { 0x1FA75, 0x1FA77 }, "Emoji" }, { { 0x1FA87, 0x1FA89 }, "Emoji" },
    { { 0x1FA8F, 0x1FA8F }, "Emoji" }, { { 0x1FAAD, 0x1FAAF }, "Emoji" }, { { 0x1FABB, 0x1FABF }, "Emoji" },
    { { 0x1FAC6, 0x1FAC6 }, "Emoji" }, { { 0x1FACE, 0x1FACF }, "Emoji" }, { { 0x1FADA, 0x1FADC }, "Emoji" },
    { { 0x1FADF, 0x1FADF }, "Emoji" }, { { 0x1FAE8, 0x1FAE9 }, "Emoji" }, { { 0x1FAF7, 0x1FAF8 }, "Emoji" },
    { { 0x2B739, 0x2B739 }, "Han" }, { { 0x2EBF0, 0x2EE5D }, "Han" }, { { 0x31350, 0x323AF }, "Han" },
    { { 0x1B132, 0x1B132 }, "Hiragana" }, { { 0x0CF3, 0x0CF3 }, "Kannada" }, { { 0x1B155, 0x1B155 }, "Katakana" },
    { { 0x18CFF, 0x18CFF }, "Khitan_Small_Script" }, { { 0x1123F, 0x11241 }, "Khojki" },
    { { 0x0ECE, 0x0ECE }, "Lao" }, { { 0xA7CB, 0xA7CD }, "Latin" }, { { 0xA7DA, 0xA7DC }, "Latin" },
    { { 0x1DF25, 0x1DF2A }, "Latin" }, { { 0x10FC, 0x10FC }, "Lowercase" }, { { 0x1C8A, 0x1C8A }, "Lowercase" },
    { { 0xA7CD, 0xA7CD }, "Lowercase" }, { { 0xA7DB, 0xA7DB }, "Lowercase" }, { { 0xA7F2, 0xA7F4 }, "Lowercase" },
    { { 0xAB69, 0xAB69 }, "Lowercase" }, { { 0x10D70, 0x10D85 }, "Lowercase" }, { { 0x1DF25, 0x1DF2A }, "Lowercase" },
    { { 0x1E030, 0x1E06D }, "Lowercase" }, { { 0x116D0, 0x116E3 }, "Myanmar" }, { { 0x1C89, 0x1C89 }, "Uppercase" },
    { { 0xA7CB, 0xA7CC }, "Uppercase" }, { { 0xA7DA, 0xA7DA }, "Uppercase" }, { { 0xA7DC, 0xA7DC }, "Uppercase" },
    { { 0x10D50, 0x10D65 }, "Uppercase" },
};

/* The union of both tables, sorted. */
static const pf_character_range RANGES[] = {
    { 0x0363, 0x036F }, { 0x0897, 0x0897 }, { 0x0C04, 0x0C04 }, { 0x0CF3, 0x0CF3 },
    { 0x0ECE, 0x0ECE }, { 0x0F82, 0x0F83 }, { 0x10FC, 0x10FC }, { 0x1B4E, 0x1B4F },
    { 0x1B7F, 0x1B7F }, { 0x1C89, 0x1C8A }, { 0x1DD3, 0x1DE6 }, { 0x2427, 0x2429 },
    { 0x2FFC, 0x2FFF }, { 0x31E4, 0x31E5 }, { 0x31EF, 0x31EF }, { 0xA7CB, 0xA7CD },
    { 0xA7DA, 0xA7DC }, { 0xA7F2, 0xA7F4 }, { 0xAB69, 0xAB69 }, { 0x105C0, 0x105F3 },
    { 0x10D40, 0x10D65 }, { 0x10D69, 0x10D85 }, { 0x10D8E, 0x10D8F },
    { 0x10EC2, 0x10EC4 }, { 0x10EFC, 0x10EFF }, { 0x11080, 0x11081 },
    { 0x1123F, 0x11241 }, { 0x11380, 0x11389 }, { 0x1138B, 0x1138B },
    { 0x1138E, 0x1138E }, { 0x11390, 0x113B5 }, { 0x113B7, 0x113C0 },
    { 0x113C2, 0x113C2 }, { 0x113C5, 0x113C5 }, { 0x113C7, 0x113CA },
    { 0x113CC, 0x113D5 }, { 0x113D7, 0x113D8 }, { 0x113E1, 0x113E2 },
    { 0x116D0, 0x116E3 }, { 0x11B00, 0x11B09 }, { 0x11BC0, 0x11BE1 },
    { 0x11BF0, 0x11BF9 }, { 0x11F00, 0x11F10 }, { 0x11F12, 0x11F3A },
    { 0x11F3E, 0x11F5A }, { 0x1342F, 0x1342F }, { 0x13439, 0x13455 },
    { 0x13460, 0x143FA }, { 0x16100, 0x16139 }, { 0x16D40, 0x16D79 },
    { 0x18CFF, 0x18CFF }, { 0x1B132, 0x1B132 }, { 0x1B155, 0x1B155 },
    { 0x1CC00, 0x1CCF9 }, { 0x1CD00, 0x1CEB3 }, { 0x1D2C0, 0x1D2D3 },
    { 0x1DF25, 0x1DF2A }, { 0x1E030, 0x1E06D }, { 0x1E08F, 0x1E08F },
    { 0x1E4D0, 0x1E4F9 }, { 0x1E5D0, 0x1E5FA }, { 0x1E5FF, 0x1E5FF },
    { 0x1F6DC, 0x1F6DC }, { 0x1F774, 0x1F776 }, { 0x1F77B, 0x1F77F },
    { 0x1F7D9, 0x1F7D9 }, { 0x1F8B2, 0x1F8BB }, { 0x1F8C0, 0x1F8C1 },
    { 0x1FA75, 0x1FA77 }, { 0x1FA87, 0x1FA89 }, { 0x1FA8F, 0x1FA8F },
    { 0x1FAAD, 0x1FAAF }, { 0x1FABB, 0x1FABF }, { 0x1FAC6, 0x1FAC6 },
    { 0x1FACE, 0x1FACF }, { 0x1FADA, 0x1FADC }, { 0x1FADF, 0x1FADF },
    { 0x1FAE8, 0x1FAE9 }, { 0x1FAF7, 0x1FAF8 }, { 0x1FBCB, 0x1FBEF },
    { 0x2B739, 0x2B739 }, { 0x2EBF0, 0x2EE5D }, { 0x31350, 0x323AF },
};

/* Marks of utf8proc 2.8 (Unicode 15) that the library's own table (Unicode 9) lacks. Found in the same way. */
static const pf_character_range MARKS[] = {
    { 0x07FD, 0x07FD }, { 0x0898, 0x089F }, { 0x08CA, 0x08D3 },
    { 0x09FE, 0x09FE }, { 0x0AFA, 0x0AFF }, { 0x0B55, 0x0B55 },
    { 0x0C04, 0x0C04 }, { 0x0C3C, 0x0C3C }, { 0x0CF3, 0x0CF3 },
    { 0x0D00, 0x0D00 }, { 0x0D3B, 0x0D3C }, { 0x0D81, 0x0D81 },
    { 0x0EBA, 0x0EBA }, { 0x0ECE, 0x0ECE }, { 0x1715, 0x1715 },
    { 0x180F, 0x180F }, { 0x1ABF, 0x1ACE }, { 0x1CF7, 0x1CF7 },
    { 0x1DF6, 0x1DFA }, { 0xA82C, 0xA82C }, { 0xA8FF, 0xA8FF },
    { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC }, { 0x10EFD, 0x10EFF },
    { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 },
    { 0x11073, 0x11074 }, { 0x110C2, 0x110C2 }, { 0x11145, 0x11146 },
    { 0x111C9, 0x111C9 }, { 0x111CE, 0x111CF }, { 0x11241, 0x11241 },
    { 0x1133B, 0x1133B }, { 0x1145E, 0x1145E }, { 0x1182C, 0x1183A },
    { 0x11930, 0x11935 }, { 0x11937, 0x11938 }, { 0x1193B, 0x1193E },
    { 0x11940, 0x11940 }, { 0x11942, 0x11943 }, { 0x119D1, 0x119D7 },
    { 0x119DA, 0x119E0 }, { 0x119E4, 0x119E4 }, { 0x11A01, 0x11A0A },
    { 0x11A33, 0x11A39 }, { 0x11A3B, 0x11A3E }, { 0x11A47, 0x11A47 },
    { 0x11A51, 0x11A5B }, { 0x11A8A, 0x11A99 }, { 0x11D31, 0x11D36 },
    { 0x11D3A, 0x11D3A }, { 0x11D3C, 0x11D3D }, { 0x11D3F, 0x11D45 },
    { 0x11D47, 0x11D47 }, { 0x11D8A, 0x11D8E }, { 0x11D90, 0x11D91 },
    { 0x11D93, 0x11D97 }, { 0x11EF3, 0x11EF6 }, { 0x11F00, 0x11F01 },
    { 0x11F03, 0x11F03 }, { 0x11F34, 0x11F3A }, { 0x11F3E, 0x11F42 },
    { 0x13440, 0x13440 }, { 0x13447, 0x13455 }, { 0x16F4F, 0x16F4F },
    { 0x16F7F, 0x16F87 }, { 0x16FE4, 0x16FE4 }, { 0x16FF0, 0x16FF1 },
    { 0x1CF00, 0x1CF2D }, { 0x1CF30, 0x1CF46 }, { 0x1E08F, 0x1E08F },
    { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE }, { 0x1E2EC, 0x1E2EF },
    { 0x1E4EC, 0x1E4EF },
};
/* clang-format on */

enum {
    N_CATEGORIES = sizeof CATEGORIES / sizeof *CATEGORIES,
    N_PROPERTIES = sizeof PROPERTIES / sizeof *PROPERTIES,
    N_RANGES = sizeof RANGES / sizeof *RANGES,
    N_MARKS = sizeof MARKS / sizeof *MARKS,
};

/* The index of the first of n rows that does not end before c. A row begins with its range; rows are sorted. */
static size_t first_not_before(const void *rows, size_t n_rows, size_t row_bytes, int32_t c)
{
    size_t low = 0, high = n_rows;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const pf_character_range *range = (const void *)((const char *)rows + middle * row_bytes);
        if (range->last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool pf_is_in_ranges(const pf_character_range *ranges, size_t n, int32_t c)
{
    const size_t i = first_not_before(ranges, n, sizeof *ranges, c);
    return i < n && ranges[i].first <= c;
}

/* LC: cased letters. */
static bool is_category(const char *category, const char *property, size_t n)
{
    if (pf_is_property("LC", property, n)) return category[0] == 'L' && strchr("ult", category[1]) != NULL;
    return n <= 2 && strncasecmp(category, property, n) == 0;
}

/* C and Cn lose the characters that every other category gains. */
static bool counts(const newer *c, const char *property, size_t n)
{
    return pf_newer_is_unassigned(property, n) != is_category(c->property, property, n);
}

bool pf_is_property(const char *known, const char *name, size_t n)
{
    size_t at = 0;
    for (;; known++) {
        while (at < n && name[at] == '_') at++;
        if (*known == '_') continue;
        if (*known == '\0' || at == n) return *known == '\0' && at == n;
        if (strncasecmp(known, name + at++, 1) != 0) return false;
    }
}

bool pf_newer_is_unassigned(const char *property, size_t n)
{
    return pf_is_property("C", property, n) || pf_is_property("Cn", property, n);
}

static bool next_category(const char *property, size_t n, size_t *at, pf_character_range *out)
{
    while (*at < N_CATEGORIES && !counts(&CATEGORIES[*at], property, n)) (*at)++;
    if (*at == N_CATEGORIES) return false;
    *out = CATEGORIES[(*at)++].range;
    for (; *at < N_CATEGORIES && CATEGORIES[*at].range.first == out->last + 1 && counts(&CATEGORIES[*at], property, n);
         (*at)++)
        out->last = CATEGORIES[*at].range.last;
    return true;
}

bool pf_newer_next(const char *property, size_t n, size_t *at, pf_character_range *out)
{
    if (n <= 2) return next_category(property, n, at, out);
    for (; *at < N_PROPERTIES; (*at)++) {
        const newer *row = &PROPERTIES[*at];
        if (!pf_is_property(row->property, property, n)) continue;
        *out = row->range;
        (*at)++;
        return true;
    }
    return false;
}

/* Most texts stay between two ranges for long, so the gap around the last character is cached. */
bool pf_has_newer(const char *text, size_t n_bytes)
{
    pf_character_range between = { 0, RANGES[0].first - 1 };
    for (size_t at = 0; at < n_bytes;) {
        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        const int32_t c = pf_character_at(text, at, &at);
        if (c >= between.first && c <= between.last) continue;
        const size_t i = first_not_before(RANGES, N_RANGES, sizeof *RANGES, c);
        if (i < N_RANGES && RANGES[i].first <= c) return true;
        between.first = i == 0 ? 0 : RANGES[i - 1].last + 1;
        between.last = i == N_RANGES ? INT32_MAX : RANGES[i].first - 1;
    }
    return false;
}

const char *pf_newer_category(int32_t c)
{
    const size_t i = first_not_before(CATEGORIES, N_CATEGORIES, sizeof *CATEGORIES, c);
    return i < N_CATEGORIES && CATEGORIES[i].range.first <= c ? CATEGORIES[i].property : "";
}

bool pf_is_newer_mark(int32_t c)
{
    return pf_is_in_ranges(MARKS, N_MARKS, c) || pf_newer_category(c)[0] == 'M';
}
