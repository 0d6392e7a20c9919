#include "tokenizer/files/sentencepiece_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* ---- protobuf ---- */

/* A message, or what is left of one. */
typedef struct {
    const uint8_t *at, *end;
} message;

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* A field: its number, its type, and its value or its bytes. */
typedef struct {
    uint64_t number;
    int type;
    uint64_t value;
    message bytes;
} field;

static bool read_varint(message *m, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool read_fixed(message *m, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    if ((size_t)(m->end - m->at) < n) return false;
    for (size_t i = 0; i < n; i++) value |= (uint64_t)m->at[i] << (8 * i);
    m->at += n;
    *out = value;
    return true;
}

/* The next field of a message that is not at its end. False: the message is malformed. */
static bool read_field(message *m, field *out)
{
    uint64_t tag, n;
    if (!read_varint(m, &tag)) return false;
    *out = (field){ .number = tag >> 3, .type = (int)(tag & 7) };
    switch (out->type) {
    case WIRE_VARINT: return read_varint(m, &out->value);
    case WIRE_64: return read_fixed(m, 8, &out->value);
    case WIRE_32: return read_fixed(m, 4, &out->value);
    case WIRE_BYTES:
        if (!read_varint(m, &n) || n > (uint64_t)(m->end - m->at)) return false;
        out->bytes = (message){ m->at, m->at + n };
        m->at += n;
        return true;
    default: return false;
    }
}

/* ---- the model ---- */

typedef struct {
    const char *name;
    pf_sentencepiece_model *model;
    size_t capacity;
    uint64_t algorithm;
    int64_t unk_id, bos_id, eos_id;
    bool is_suffix, keeps_spaces; /* options that are not known here */
    pf_error *error;
} reader;

static pf_status malformed(const reader *r, const char *what)
{
    return pf_fail(r->error, PF_FORMAT, "%s: %s is no protobuf message of SentencePiece", r->name, what);
}

static bool is_text(const pf_piece *piece)
{
    bool valid = piece->n_bytes > 0 && memchr(piece->text, '\0', piece->n_bytes) == NULL;
    for (size_t i = 0; valid && i < piece->n_bytes;) i += pf_utf8_length(piece->text + i, piece->n_bytes - i, &valid);
    return valid;
}

static float float_of(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float out;
    memcpy(&out, &low, sizeof out);
    return out;
}

static pf_status push_piece(reader *r, const pf_piece *piece)
{
    pf_sentencepiece_model *model = r->model;
    if (model->n_pieces == PF_MAX_PIECES)
        return pf_fail(r->error, PF_LIMIT, "%s: more than %d pieces", r->name, PF_MAX_PIECES);
    if (!is_text(piece) || !isfinite(piece->score) || piece->type < PF_PIECE_NORMAL || piece->type > PF_PIECE_BYTE)
        return pf_fail(r->error, PF_FORMAT,
                       "%s: piece %d must have a text in UTF-8 without NUL, a finite score and a type from 1 to 6",
                       r->name, model->n_pieces);
    if ((size_t)model->n_pieces == r->capacity) {
        const size_t capacity = 2 * r->capacity + 1024;
        pf_piece *grown = realloc(model->pieces, capacity * sizeof *grown);
        if (!grown) return pf_fail(r->error, PF_NOMEM, "%s: no memory for its pieces", r->name);
        model->pieces = grown;
        r->capacity = capacity;
    }
    model->pieces[model->n_pieces++] = *piece;
    return PF_OK;
}

static pf_status read_piece(reader *r, message m)
{
    pf_piece piece = { .text = "", .type = PF_PIECE_NORMAL };
    for (field f; m.at < m.end;) {
        if (!read_field(&m, &f)) return malformed(r, "a piece");
        if (f.number == 1 && f.type == WIRE_BYTES) {
            piece.text = (const char *)f.bytes.at;
            piece.n_bytes = (uint32_t)(f.bytes.end - f.bytes.at);
        }
        if (f.number == 2 && f.type == WIRE_32) piece.score = float_of(f.value);
        if (f.number == 3 && f.type == WIRE_VARINT) piece.type = f.value > PF_PIECE_BYTE ? 0 : (pf_piece_type)f.value;
    }
    return push_piece(r, &piece);
}

static pf_status read_trainer_spec(reader *r, message m)
{
    for (field f; m.at < m.end;) {
        if (!read_field(&m, &f)) return malformed(r, "trainer_spec");
        if (f.type != WIRE_VARINT) continue;
        switch (f.number) {
        case 3: r->algorithm = f.value; break;
        case 24: r->is_suffix = f.value != 0; break;
        case 35: r->model->byte_fallback = f.value != 0; break;
        case 40: r->unk_id = (int32_t)(uint32_t)f.value; break; /* int32: negative numbers have ten bytes */
        case 41: r->bos_id = (int32_t)(uint32_t)f.value; break;
        case 42: r->eos_id = (int32_t)(uint32_t)f.value; break;
        default: break;
        }
    }
    return PF_OK;
}

static pf_status read_normalizer_spec(reader *r, message m)
{
    for (field f; m.at < m.end;) {
        if (!read_field(&m, &f)) return malformed(r, "normalizer_spec");
        if (f.number == 2 && f.type == WIRE_BYTES) {
            r->model->charsmap = f.bytes.at;
            r->model->n_charsmap = (size_t)(f.bytes.end - f.bytes.at);
        }
        if (f.type != WIRE_VARINT) continue;
        if (f.number == 3) r->model->add_dummy_prefix = f.value != 0;
        if (f.number == 4) r->model->remove_extra_whitespaces = f.value != 0;
        if (f.number == 5) r->keeps_spaces = f.value == 0;
    }
    return PF_OK;
}

static pf_status read_message(reader *r, message m)
{
    for (field f; m.at < m.end;) {
        if (!read_field(&m, &f)) return malformed(r, "the file");
        if (f.type != WIRE_BYTES) continue;
        if (f.number == 1) PF_TRY(read_piece(r, f.bytes));
        if (f.number == 2) PF_TRY(read_trainer_spec(r, f.bytes));
        if (f.number == 3) PF_TRY(read_normalizer_spec(r, f.bytes));
    }
    return r->model->n_pieces > 0 ? PF_OK : malformed(r, "a file without pieces");
}

/* The id of a special piece; -1 where there is none. */
static int32_t id_in(const pf_sentencepiece_model *model, int64_t id)
{
    return id >= 0 && id < model->n_pieces ? (int32_t)id : -1;
}

static pf_status check(reader *r)
{
    enum { UNIGRAM = 1, BPE = 2 };
    if (r->algorithm != UNIGRAM && r->algorithm != BPE)
        return pf_fail(r->error, PF_UNSUPPORTED,
                       "%s: trainer_spec.model_type is %llu, expected 1 (unigram) or 2 (BPE); 3 is words, 4 characters",
                       r->name, (unsigned long long)r->algorithm);
    if (r->is_suffix || r->keeps_spaces)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: %s is %s, expected %s", r->name,
                       r->is_suffix ? "trainer_spec.treat_whitespace_as_suffix" : "normalizer_spec.escape_whitespaces",
                       r->is_suffix ? "true" : "false", r->is_suffix ? "false" : "true");
    r->model->is_unigram = r->algorithm == UNIGRAM;
    r->model->unk_id = id_in(r->model, r->unk_id);
    r->model->bos_id = id_in(r->model, r->bos_id);
    r->model->eos_id = id_in(r->model, r->eos_id);
    return PF_OK;
}

pf_status pf_sentencepiece_model_read(const char *name, const uint8_t *data, size_t n, pf_sentencepiece_model *out,
                                      pf_error *error)
{
    pf_sentencepiece_model model = { .add_dummy_prefix = true, .remove_extra_whitespaces = true };
    reader r = { .name = name, .model = &model, .algorithm = 1, .bos_id = 1, .eos_id = 2, .error = error };
    pf_status status = read_message(&r, (message){ data, data + n });
    if (status == PF_OK) status = check(&r);
    if (status == PF_OK)
        *out = model;
    else
        pf_sentencepiece_model_clear(&model);
    return status;
}

void pf_sentencepiece_model_clear(pf_sentencepiece_model *model)
{
    free(model->pieces);
    *model = (pf_sentencepiece_model){ .pieces = NULL };
}
