// The bytes of the tokens of a llama.cpp vocabulary, as docs/protocol.md has them: of a byte-level token those that its text stands for,
// of any other its text. For pfd_options.texts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "llama.h"

struct token_texts {
    const llama_vocab *vocab;
    mutable std::string piece;   // of the last token that was asked for

    static const char *token(const void *user, int32_t id, size_t *n_bytes) {
        constexpr int LONGEST = 512;
        const auto *self = static_cast<const token_texts *>(user);
        const bool is_plain = (llama_vocab_get_attr(self->vocab, id) & (LLAMA_TOKEN_ATTR_NORMAL | LLAMA_TOKEN_ATTR_UNDEFINED)) != 0;
        if (llama_vocab_type(self->vocab) == LLAMA_VOCAB_TYPE_BPE && is_plain) {
            self->piece.resize(LONGEST);
            int n = llama_token_to_piece(self->vocab, id, &self->piece[0], LONGEST, 0, false);
            if (n < 0) {   // its length
                self->piece.resize(static_cast<size_t>(-n));
                n = llama_token_to_piece(self->vocab, id, &self->piece[0], -n, 0, false);
            }
            self->piece.resize(static_cast<size_t>(std::max(n, 0)));
        } else {
            self->piece = llama_vocab_get_text(self->vocab, id);
        }
        *n_bytes = self->piece.size();
        return self->piece.c_str();
    }
};
