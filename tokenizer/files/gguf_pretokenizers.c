/*
 * The pre-tokenizers that tokenizer.ggml.pre names. Patterns and steps are those of the tokenizer.json files of the families that
 * have the name; the names and which of them ignore merges or begin with BOS are those of llama.cpp (src/llama-vocab.cpp).
 */
#include <stdio.h>

#include "tokenizer/files/document_parts.h"
#include "tokenizer/files/gguf_tokenizer.h"
#include "tokenizer/files/patterns.h"

#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASES(contractions, digits)                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" contractions "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
    "*" contractions "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" PF_PATTERN_LINES_AND_SPACES

#define O200K          CASES(PF_PATTERN_CONTRACTIONS "?", "\\p{N}{1,3}")
#define TEKKEN         CASES("", "\\p{N}")
#define BLOOM          " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
#define HAN_AND_KANA   "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define HAN_AND_HANGUL "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
/* Letters with case, as an older Unicode has them. */
/* clang-format off */
#define CASED_LETTERS \
    "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-Ჺ" \
    "Ჽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓ" \
    "ℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏" \
    "𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]"
/* clang-format on */
#define DEEPSEEK3_TO(lines)                                                                               \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " \
    "?[\\p{P}\\p{S}]+" lines
#define DEEPSEEK3 DEEPSEEK3_TO("[\\r\\n]*" PF_PATTERN_LINES_AND_SPACES)
#define SPARK     DEEPSEEK3_TO("|[\\r\\n]|\\s+(?!\\S)|\\s+")
#define JAIS2                                                                                                   \
    PF_PATTERN_CONTRACTIONS                                                                                     \
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)"   \
    "|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)" \
    "|\\s{1,2}(?!\\S)|\\s{1}"
#define YOUTU                                                                                                         \
    "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-" \
    "\ufe4f]+"                                                                                                        \
    "|[\u3105-\u312f]+|" HAN_AND_KANA
#define BAILING                                                     \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| " \
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define SEED_CODER          \
    PF_PATTERN_CONTRACTIONS \
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" PF_PATTERN_LINES_AND_SPACES
#define EXAONE_MOE                                                                                                     \
    PF_PATTERN_CONTRACTIONS                                                                                            \
    "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]" \
    "|\\s+(?!\\S)|\\s+"

enum { MAX_STEPS = 8, MAX_NAMES = 16 };

typedef enum {
    NO_STEP,
    SPLIT,       /* by a pattern, isolated */
    DIGIT,       /* each digit by itself */
    DIGITS,      /* runs of digits */
    PUNCTUATION, /* runs of punctuation */
    BYTES,       /* ByteLevel without a pattern */
    WORDS,       /* ByteLevel with GPT-2's pattern */
} step_kind;

typedef struct {
    const char *names[MAX_NAMES];
    struct {
        step_kind kind;
        const char *pattern;
    } steps[MAX_STEPS];
    bool ignore_merges, add_bos, nfc;
} row;

static const row ROWS[] = {
    { .names = { "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano" },
      .steps = { { SPLIT, PF_PATTERN_LLAMA3 }, { BYTES } },
      .ignore_merges = true,
      .add_bos = true },
    { .names = { "dbrx", "smaug-bpe", "glm4", "chatglm-bpe" }, .steps = { { SPLIT, PF_PATTERN_LLAMA3 }, { BYTES } } },
    { .names = { "qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2" },
      .steps = { { SPLIT, PF_PATTERN_QWEN2 }, { BYTES } },
      .nfc = true },
    { .names = { "stablelm2", "hunyuan", "solar-open", "grok-2" },
      .steps = { { SPLIT, PF_PATTERN_QWEN2 }, { BYTES } } },
    { .names = { "qwen35" }, .steps = { { SPLIT, PF_PATTERN_QWEN35 }, { BYTES } }, .nfc = true },
    { .names = { "gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie" }, .steps = { { SPLIT, O200K }, { BYTES } } },
    { .names = { "tekken" }, .steps = { { SPLIT, TEKKEN }, { BYTES } }, .ignore_merges = true, .add_bos = true },
    { .names = { "gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "mellum", "gigachat", "a.x-4.0",
                 "granite-docling", "modern-bert", "jina-es", "jina-de", "jina-v2-es" },
      .steps = { { WORDS } } },
    { .names = { "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2" },
      .steps = { { DIGIT }, { WORDS } } },
    { .names = { "falcon" }, .steps = { { PUNCTUATION }, { WORDS }, { DIGITS }, { SPLIT, "[0-9][0-9][0-9]" } } },
    { .names = { "bloom", "poro-chat", "gpt3-finnish" }, .steps = { { SPLIT, BLOOM }, { BYTES } } },
    { .names = { "viking" }, .steps = { { SPLIT, BLOOM }, { DIGIT }, { BYTES } } },
    { .names = { "deepseek-coder" },
      .steps = { { SPLIT, "[\\r\\n]" },
                 { SPLIT, "\\s?\\p{L}+" },
                 { SPLIT, "\\s?\\p{P}+" },
                 { SPLIT, HAN_AND_HANGUL },
                 { DIGIT },
                 { BYTES } } },
    { .names = { "deepseek-llm" },
      .steps = { { SPLIT, "[\\r\\n]" },
                 { SPLIT, "\\s?" CASED_LETTERS "+" },
                 { SPLIT, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+" },
                 { SPLIT, "\\s+$" },
                 { SPLIT, HAN_AND_HANGUL },
                 { DIGIT },
                 { BYTES } } },
    { .names = { "deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4" },
      .steps = { { SPLIT, "\\p{N}{1,3}" }, { SPLIT, HAN_AND_KANA }, { SPLIT, DEEPSEEK3 }, { BYTES } } },
    { .names = { "spark2_5" },
      .steps = { { SPLIT, "\\p{N}{1,3}" }, { SPLIT, HAN_AND_KANA }, { SPLIT, SPARK }, { DIGIT }, { BYTES } } },
    { .names = { "jais-2" }, .steps = { { SPLIT, JAIS2 }, { BYTES } } },
    { .names = { "minicpm5" },
      .steps = { { SPLIT, "\\p{N}{1,3}" },
                 { SPLIT, PF_PATTERN_CONTRACTIONS "|" PF_PATTERN_WORDS("\\p{L}", "\\p{N}+") },
                 { BYTES } },
      .ignore_merges = true },
    { .names = { "youtu" },
      .steps = { { SPLIT, YOUTU }, { SPLIT, CASES(PF_PATTERN_CONTRACTIONS "?", "\\p{N}") }, { BYTES } },
      .ignore_merges = true },
    { .names = { "bailingmoe", "bailingmoe2", "llada-moe" }, .steps = { { SPLIT, BAILING }, { BYTES } } },
    { .names = { "seed-coder" }, .steps = { { SPLIT, SEED_CODER }, { BYTES } } },
    { .names = { "ufakzeka" }, .steps = { { SPLIT, PF_PATTERN_WORDS("\\p{L}", "\\p{N}") }, { BYTES } } },
    { .names = { "laguna" }, .steps = { { SPLIT, "[^\\n]+|[\\n]+" }, { SPLIT, PF_PATTERN_QWEN2 }, { BYTES } } },
    { .names = { "exaone-moe" }, .steps = { { SPLIT, EXAONE_MOE }, { BYTES } } },
    { .names = { "superbpe" }, .steps = { { SPLIT, "\\p{N}+" }, { SPLIT, "(?=(\\d{3})+(?!\\d))" }, { BYTES } } },
    { .names = { "tiny_aya", "cohere2moe" },
      .steps = { { SPLIT, "\\d{1,3}(?=(?:\\d{3})*\\b)" }, { SPLIT, O200K }, { BYTES } } },
    /* files without a name, written before there were any */
    { .names = { "default", "" }, .steps = { { PUNCTUATION }, { WORDS }, { DIGITS }, { SPLIT, "[0-9][0-9][0-9]" } } },
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static json_t *make_step(step_kind kind, const char *pattern)
{
    switch (kind) {
    case SPLIT: return pf_split_part(pattern);
    case DIGIT:
    case DIGITS: return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", kind == DIGIT);
    case PUNCTUATION: return json_pack("{s:s, s:s}", "type", "Punctuation", "behavior", "Contiguous");
    case BYTES:
    case WORDS: return pf_byte_level_part(false, kind == WORDS);
    case NO_STEP: break;
    }
    return NULL;
}

static json_t *make_sequence(const row *r)
{
    json_t *list = json_array();
    for (int i = 0; list != NULL && i < MAX_STEPS && r->steps[i].kind != NO_STEP; i++)
        if (json_array_append_new(list, make_step(r->steps[i].kind, r->steps[i].pattern)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list == NULL ? NULL : pf_sequence_part("pretokenizers", list);
}

static const row *find_row(pf_gguf_string name)
{
    for (int i = 0; i < N_ROWS; i++)
        for (int k = 0; k < MAX_NAMES && ROWS[i].names[k] != NULL; k++)
            if (pf_gguf_string_is(name, ROWS[i].names[k])) return &ROWS[i];
    return NULL;
}

/* Says which names are known: the first of each row, since a sentence does not hold all. */
static pf_status refuse(const char *path, pf_gguf_string name, pf_error *error)
{
    char known[1024] = "";
    size_t n = 0;
    for (int i = 0; i < N_ROWS; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", ROWS[i].names[0]);
    return pf_fail(
        error, PF_UNSUPPORTED,
        "%s: tokenizer.ggml.pre is \"%.*s\", which is not known (known are %s, and others that split as these)", path,
        name.n_bytes < 60 ? (int)name.n_bytes : 60, name.text, known);
}

pf_status pf_gguf_pretokenizer_create(const char *path, pf_gguf_string name, pf_gguf_pretokenizer *out, pf_error *error)
{
    const row *r = find_row(name);
    if (r == NULL) return refuse(path, name, error);
    json_t *sequence = make_sequence(r);
    if (sequence == NULL) return pf_fail(error, PF_NOMEM, "%s: no memory for its pre-tokenizer", path);
    *out = (pf_gguf_pretokenizer){ sequence, r->ignore_merges, r->add_bos, r->nfc };
    return PF_OK;
}
