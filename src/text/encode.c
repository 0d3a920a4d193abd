/* Text to ids: leads a text through added tokens, normalizer, pre-tokenizer and BPE.
 *
 * Tokens that ask for it are looked for in the text as it stands; what lies between is normalised, searched for the
 * other added tokens, and what then remains is cut into words. */
#include <string.h>

#include "text/tokenizer_internal.h"
#include "text/utf8.h"

static sluice_status encoder_open(struct encoder *encoder, const struct tokenizer *tokenizer, struct token_list *out,
                                  sluice_error *err)
{
    *encoder = (struct encoder){.tokenizer = tokenizer, .out = out};
    buffer_init(&encoder->prefixed, 4 * ENCODE_LIMIT);
    buffer_init(&encoder->normalized, 4 * ENCODE_LIMIT);
    return regex_matcher_open(&encoder->matcher, err);
}

static void encoder_close(struct encoder *encoder)
{
    regex_matcher_close(encoder->matcher);
    bpe_workspace_free(&encoder->bpe);
    buffer_free(&encoder->prefixed);
    buffer_free(&encoder->normalized);
}

/* A stretch without the added tokens of the raw text. */
static sluice_status encode_stretch(struct encoder *encoder, const char *text, size_t len, bool added_tokens,
                                    sluice_error *err)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->normalize_nfc) {
        buffer_clear(&encoder->normalized);
        TRY(normalize_nfc(text, len, &encoder->normalized, err));
        text = encoder->normalized.data;
        len = encoder->normalized.len;
    }
    if (!added_tokens) {
        return pretokenize_text(encoder, text, len, err);
    }
    struct added_cursor cursor;
    struct added_piece piece;
    added_cursor_init(&cursor, &tokenizer->added, &tokenizer->added.normalized, text, len);
    while (added_cursor_next(&cursor, &piece)) {
        TRY(piece.token != NULL ? token_list_push(encoder->out, piece.token->id, err)
                                : pretokenize_text(encoder, piece.text, piece.len, err));
    }
    return SLUICE_OK;
}

static sluice_status encode_all(struct encoder *encoder, const char *text, size_t len, bool added_tokens,
                                sluice_error *err)
{
    const struct added_tokens *added = &encoder->tokenizer->added;
    if (!added_tokens) {
        return encode_stretch(encoder, text, len, false, err);
    }
    struct added_cursor cursor;
    struct added_piece piece;
    added_cursor_init(&cursor, added, &added->raw, text, len);
    while (added_cursor_next(&cursor, &piece)) {
        TRY(piece.token != NULL ? token_list_push(encoder->out, piece.token->id, err)
                                : encode_stretch(encoder, piece.text, piece.len, true, err));
    }
    return SLUICE_OK;
}

sluice_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len, bool added_tokens,
                               struct token_list *out, sluice_error *err)
{
    if (len == 0) {
        return SLUICE_OK;
    }
    if (len > ENCODE_LIMIT) {
        return error_set(err, SLUICE_LIMIT, "text of %zu bytes, more than the %zu that can be encoded at once", len,
                         ENCODE_LIMIT);
    }
    size_t invalid = utf8_find_invalid(text, len);
    if (invalid < len) {
        return error_set(err, SLUICE_INVALID, "text is not UTF-8 at byte %zu", invalid);
    }
    size_t n_before = out->n;
    struct encoder encoder;
    sluice_status status = encoder_open(&encoder, tokenizer, out, err);
    if (status == SLUICE_OK) {
        status = encode_all(&encoder, text, len, added_tokens, err);
    }
    encoder_close(&encoder);
    if (status != SLUICE_OK) {
        out->n = n_before;
    }
    return status;
}
