/*
 * The characters that stand for bytes in the files of byte-level BPE: GPT-2's table. A printable byte of Latin-1 stands for
 * itself, the others are code points from 256 on, in order.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_BYTE_TO_UNICODE_H
#define PF_TOKENIZER_BYTE_TO_UNICODE_H

#include <stdint.h>

enum { PF_N_BYTE_CODE_POINTS = 256 + 68 }; /* code points from 0 that can stand for a byte */

static inline int32_t pf_byte_to_unicode(unsigned char byte)
{
    if (byte <= 0x20) return 256 + byte;
    if (byte >= 0x7F && byte <= 0xA0) return 256 + 0x21 + (byte - 0x7F);
    return byte == 0xAD ? PF_N_BYTE_CODE_POINTS - 1 : byte;
}

#endif
