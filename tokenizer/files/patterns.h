/*
 * The regular expressions by which tokenizers of several families split text, in Oniguruma's syntax, as their tokenizer.json files
 * have them.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_PATTERNS_H
#define PF_TOKENIZER_PATTERNS_H

#define PF_PATTERN_CONTRACTIONS     "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PF_PATTERN_LINES_AND_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Words with a character in front, numbers, other characters with line ends behind. */
#define PF_PATTERN_WORDS(letters, digits) \
    "[^\\r\\n\\p{L}\\p{N}]?" letters "+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" PF_PATTERN_LINES_AND_SPACES

#define PF_PATTERN_LLAMA3 PF_PATTERN_CONTRACTIONS "|" PF_PATTERN_WORDS("\\p{L}", "\\p{N}{1,3}")
#define PF_PATTERN_QWEN2  PF_PATTERN_CONTRACTIONS "|" PF_PATTERN_WORDS("\\p{L}", "\\p{N}")
#define PF_PATTERN_QWEN35   \
    PF_PATTERN_CONTRACTIONS \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" PF_PATTERN_LINES_AND_SPACES

#endif
