/*
 * The pre-tokenizers that tokenizer.ggml.pre names. Patterns and steps are those of the tokenizer.json files of the families that
 * have the name; the names and which of them ignore merges or begin with BOS are those of llama.cpp (src/llama-vocab.cpp).
 */
#include "tokenizer/files/gguf_tokenizer.h"

#define CONTRACTIONS     "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LINES_AND_SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_AND_DIGITS(letters, digits) \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?" letters "+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINES_AND_SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASES(contractions, digits)                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" contractions "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
    "*" contractions "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" LINES_AND_SPACES

#define LLAMA3 WORDS_AND_DIGITS("\\p{L}", "\\p{N}{1,3}")
#define QWEN2  WORDS_AND_DIGITS("\\p{L}", "\\p{N}")
#define QWEN35 \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINES_AND_SPACES
#define O200K          CASES(CONTRACTIONS "?", "\\p{N}{1,3}")
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
#define DEEPSEEK3                                                                                         \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " \
    "?[\\p{P}\\p{S}]+[\\r\\n]*" LINES_AND_SPACES

enum { MAX_STEPS = 7, MAX_NAMES = 12 };

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
    { .names = { "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2" },
      .steps = { { SPLIT, LLAMA3 }, { BYTES } },
      .ignore_merges = true,
      .add_bos = true },
    { .names = { "dbrx", "smaug-bpe", "glm4", "chatglm-bpe" }, .steps = { { SPLIT, LLAMA3 }, { BYTES } } },
    { .names = { "qwen2", "deepseek-r1-qwen", "megrez", "kormo" },
      .steps = { { SPLIT, QWEN2 }, { BYTES } },
      .nfc = true },
    { .names = { "stablelm2", "hunyuan", "solar-open", "grok-2" }, .steps = { { SPLIT, QWEN2 }, { BYTES } } },
    { .names = { "qwen35" }, .steps = { { SPLIT, QWEN35 }, { BYTES } }, .nfc = true },
    { .names = { "gpt-4o", "llama4", "kanana2", "minimax-m2" }, .steps = { { SPLIT, O200K }, { BYTES } } },
    { .names = { "tekken" }, .steps = { { SPLIT, TEKKEN }, { BYTES } }, .ignore_merges = true, .add_bos = true },
    { .names = { "gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "mellum", "gigachat", "a.x-4.0",
                 "granite-docling", "modern-bert" },
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
    { .names = { "deepseek-v3", "hunyuan-dense", "joyai-llm" },
      .steps = { { SPLIT, "\\p{N}{1,3}" }, { SPLIT, HAN_AND_KANA }, { SPLIT, DEEPSEEK3 }, { BYTES } } },
    /* files without a name, written before there were any */
    { .names = { "default", "" }, .steps = { { PUNCTUATION }, { WORDS }, { DIGITS }, { SPLIT, "[0-9][0-9][0-9]" } } },
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static json_t *make_step(step_kind kind, const char *pattern)
{
    switch (kind) {
    case SPLIT:
        return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern, "behavior",
                         "Isolated", "invert", 0);
    case DIGIT:
    case DIGITS: return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", kind == DIGIT);
    case PUNCTUATION: return json_pack("{s:s, s:s}", "type", "Punctuation", "behavior", "Contiguous");
    case BYTES:
    case WORDS:
        return json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", kind == WORDS);
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
    return list == NULL ? NULL : json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

static const row *find_row(pf_gguf_string name)
{
    for (int i = 0; i < N_ROWS; i++)
        for (int k = 0; k < MAX_NAMES && ROWS[i].names[k] != NULL; k++)
            if (pf_gguf_string_is(name, ROWS[i].names[k])) return &ROWS[i];
    return NULL;
}

pf_status pf_gguf_pretokenizer_create(const char *path, pf_gguf_string name, pf_gguf_pretokenizer *out, pf_error *error)
{
    const row *r = find_row(name);
    if (r == NULL)
        return pf_fail(error, PF_UNSUPPORTED, "%s: tokenizer.ggml.pre is \"%.*s\", which is not known", path,
                       name.n_bytes < 60 ? (int)name.n_bytes : 60, name.text);
    json_t *sequence = make_sequence(r);
    if (sequence == NULL) return pf_fail(error, PF_NOMEM, "%s: no memory for its pre-tokenizer", path);
    *out = (pf_gguf_pretokenizer){ sequence, r->ignore_merges, r->add_bos, r->nfc };
    return PF_OK;
}
