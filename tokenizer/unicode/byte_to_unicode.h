/*
 * Maps bytes to the characters of byte-level BPE files: GPT-2's bytes-to-unicode table. A printable byte of Latin-1 maps to
 * itself, the others to code points from 256 on, in order.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_BYTE_TO_UNICODE_H
#define PF_TOKENIZER_BYTE_TO_UNICODE_H

#include <stdint.h>

enum { PF_N_BYTE_CODE_POINTS = 256 + 68 }; /* every code point of the table is below it */

static inline int32_t pf_byte_to_unicode(unsigned char byte)
{
    if (byte <= 0x20) return 256 + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 256 + 0x21 + (byte - 0x7F);
    return byte == 0xAD ? PF_N_BYTE_CODE_POINTS - 1 : byte;
}

#endif
