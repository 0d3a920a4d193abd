/* Ids to text, one id at a time.
 *
 * Bytes wait in `pending` only while they are the unfinished start of a character, which is at most three. A byte that
 * ends every such hope turns what waited, the maximal subpart, into one U+FFFD: the same text as if all bytes had been
 * decoded at once. */
#include <string.h>

#include "text/tokenizer_internal.h"
#include "text/utf8.h"

/* U+FFFD */
#define REPLACEMENT_LEN 3
static const unsigned char replacement[REPLACEMENT_LEN] = {0xEF, 0xBF, 0xBD};

void detokenizer_init(struct detokenizer *d, const struct tokenizer *tokenizer, bool skip_special)
{
    *d = (struct detokenizer){.tokenizer = tokenizer, .skip_special = skip_special};
}

size_t detokenizer_max_bytes(const struct tokenizer *tokenizer)
{
    return ((size_t)tokenizer->vocabulary.longest + DETOKENIZER_PENDING) * REPLACEMENT_LEN;
}

/* Takes one byte; returns what it writes. */
static size_t push_byte(struct detokenizer *d, char byte, char *out)
{
    size_t written = 0;
    d->pending[d->n_pending++] = (unsigned char)byte;
    while (d->n_pending > 0) {
        size_t used;
        const char *pending = (const char *)d->pending;
        enum utf8_scan scan = utf8_scan_first(pending, d->n_pending, &used);
        if (scan == UTF8_PARTIAL) {
            break;
        }
        if (scan == UTF8_COMPLETE) {
            memcpy(out + written, pending, used);
            written += used;
        } else {
            memcpy(out + written, replacement, REPLACEMENT_LEN);
            written += REPLACEMENT_LEN;
        }
        d->n_pending -= used;
        memmove(d->pending, d->pending + used, d->n_pending);
    }
    return written;
}

size_t detokenizer_push(struct detokenizer *d, uint32_t id, char *out)
{
    size_t len, written = 0;
    const char *bytes = tokenizer_bytes(d->tokenizer, id, &len);
    if (bytes == NULL || (d->skip_special && tokenizer_is_special(d->tokenizer, id))) {
        return 0;
    }
    for (size_t i = 0; i < len; i++) {
        written += push_byte(d, bytes[i], out + written);
    }
    return written;
}

size_t detokenizer_finish(struct detokenizer *d, char *out)
{
    if (d->n_pending == 0) {
        return 0;
    }
    d->n_pending = 0;
    memcpy(out, replacement, REPLACEMENT_LEN);
    return REPLACEMENT_LEN;
}
