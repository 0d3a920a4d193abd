#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct tokenizer *demo;

json_t *fixture_read_json(const char *path)
{
    json_error_t failure;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &failure);
    if (root == NULL) {
        fprintf(stderr, "%s: %s\n", path, failure.text);
        abort();
    }
    return root;
}

const struct tokenizer *fixture_demo(void)
{
    sluice_error err;
    if (demo == NULL && tokenizer_open(&demo, DEMO_TOKENIZER, &err) != SLUICE_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return demo;
}

void fixture_close(void)
{
    tokenizer_close(&demo);
}

/* ---- Small tokenizers ------------------------------------------------------------------------------ */

/* The character that spells a byte, as UTF-8. Written apart from the code under test. */
static void spell_byte(unsigned byte, char *out)
{
    unsigned character = byte, hidden = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        if (!printable && b < byte) {
            hidden++;
        } else if (!printable) {
            character = 256 + hidden;
        }
    }
    if (character < 0x80) {
        snprintf(out, 4, "%c", (int)character);
    } else {
        snprintf(out, 4, "%c%c", (int)(0xC0 | character >> 6), (int)(0x80 | (character & 0x3F)));
    }
}

json_t *fixture_small_json(void)
{
    json_t *vocab = json_object();
    for (unsigned byte = 0; byte < 256; byte++) {
        char word[4];
        spell_byte(byte, word);
        json_object_set_new(vocab, word, json_integer(byte));
    }
    json_object_set_new(vocab, "ab", json_integer(256));
    json_object_set_new(vocab, "abc", json_integer(257));
    json_object_set_new(vocab,
                        "\xC4\xA0"
                        "a",
                        json_integer(258));
    json_t *root =
        json_pack("{s:s, s:[{s:i, s:s, s:b}], s:n, s:{s:s, s:b, s:b}, s:{s:s}, s:{s:s, s:o, s:[s, s, s]}}", "version",
                  "1.0", "added_tokens", "id", 259, "content", "<end>", "special", 1, "normalizer", "pre_tokenizer",
                  "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1, "decoder", "type", "ByteLevel", "model",
                  "type", "BPE", "vocab", vocab, "merges", "a b", "ab c", "\xC4\xA0 a");
    if (root == NULL) {
        abort();
    }
    return root;
}

/* Thousands of files are opened this way, so they stay in memory. */
sluice_status fixture_open_bytes(struct tokenizer **out, const char *bytes, size_t len, sluice_error *err)
{
    char path[64];
    int fd = memfd_create("tokenizer.json", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len) {
        abort();
    }
    snprintf(path, sizeof(path), FIXTURE_PATH "%d", fd);
    sluice_status status = tokenizer_open(out, path, err);
    close(fd);
    return status;
}

sluice_status fixture_open(struct tokenizer **out, json_t *root, sluice_error *err)
{
    char *text = json_dumps(root, JSON_COMPACT);
    if (text == NULL) {
        abort();
    }
    sluice_status status = fixture_open_bytes(out, text, strlen(text), err);
    free(text);
    json_decref(root);
    return status;
}

json_t *fixture_vary(const json_t *base, const json_t *variant)
{
    json_t *root = json_deep_copy(base), *model = json_object_get(root, "model");
    const json_t *part = json_object_get(variant, "replace");
    if (part != NULL) {
        json_object_update(root, (json_t *)part);
    }
    part = json_object_get(variant, "model");
    if (part != NULL) {
        json_object_update(model, (json_t *)part);
    }
    json_t *merges = json_object_get(model, "merges");
    for (json_int_t i = json_integer_value(json_object_get(variant, "drop_merges")); i > 0; i--) {
        json_array_remove(merges, json_array_size(merges) - 1);
    }
    part = json_object_get(variant, "added");
    if (part != NULL) {
        json_array_extend(json_object_get(root, "added_tokens"), (json_t *)part);
    }
    return root;
}

/* ---- Texts ----------------------------------------------------------------------------------------- */

bool fixture_encodes_to(const struct tokenizer *tokenizer, const char *text, size_t len, bool added,
                        const uint32_t *ids, size_t n)
{
    struct token_list list = {0};
    sluice_error err;
    if (tokenizer_encode(tokenizer, text, len, added, &list, &err) != SLUICE_OK) {
        fprintf(stderr, "%s\n", err.message);
        return false;
    }
    bool equal = list.n == n && (n == 0 || memcmp(list.ids, ids, n * sizeof(*ids)) == 0);
    if (!equal) {
        fprintf(stderr, "\"%.*s\" gives", (int)len, text);
        for (size_t i = 0; i < list.n; i++) {
            fprintf(stderr, " %u", list.ids[i]);
        }
        fprintf(stderr, ", not");
        for (size_t i = 0; i < n; i++) {
            fprintf(stderr, " %u", ids[i]);
        }
        fprintf(stderr, "\n");
    }
    token_list_free(&list);
    return equal;
}

char *fixture_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n, size_t *len)
{
    char *text = malloc((n + 1) * detokenizer_max_bytes(tokenizer) + 1);
    size_t at = 0;
    struct detokenizer d;
    if (text == NULL) {
        abort();
    }
    detokenizer_init(&d, tokenizer, false);
    for (size_t i = 0; i < n; i++) {
        at += detokenizer_push(&d, ids[i], text + at);
    }
    at += detokenizer_finish(&d, text + at);
    text[at] = '\0';
    *len = at;
    return text;
}

bool fixture_is_one_line(const sluice_error *err)
{
    size_t len = strnlen(err->message, sizeof(err->message));
    if (len < 8 || len == sizeof(err->message)) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)err->message[i] < ' ') {
            return false;
        }
    }
    return true;
}
