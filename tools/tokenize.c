/* sluice tokenize: ids of a text, or the text of ids. Reads the tokenizer alone, no weights. */
#include <limits.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "command.h"
#include "console.h"
#include "input.h"
#include "options.h"

struct tokenize_options {
    struct model_choice model;
    const char *prompt, *file;
    struct arg_ids ids;
    bool special;
};

#define AT(field) offsetof(struct tokenize_options, field)

static const struct arg_option tokenize_table[] = {
    {"-p", ARG_ANY, AT(prompt), "TEXT", .help = "text to turn into ids"},
    {"-f", ARG_TEXT, AT(file), "FILE", .help = "the same from a file; - is standard input"},
    {"--ids", ARG_IDS, AT(ids), "LIST", .help = "ids to turn into text, such as 1,2,3"},
    {"--special", ARG_FLAG, AT(special), NULL, .help = "recognise added tokens such as <|user|> in the text"},
    {0},
};

static const struct arg_command tokenize_args = {
    "tokenize",
    "[-m DIR] (-p TEXT | -f FILE | --ids LIST)",
    "Prints the ids of a text, or the text of ids.",
    {tokenize_table, model_table},
};

static sluice_status ids_print(const sluice_text *text, const struct tokenize_options *options, sluice_error *err)
{
    struct buffer input;
    uint32_t *ids = NULL;
    size_t n = 0;

    buffer_init(&input, INPUT_LIMIT);
    sluice_status status = input_read(&input, options->prompt, options->file, err);
    if (status == SLUICE_OK) {
        const char *bytes = input.data != NULL ? input.data : "";
        status = sluice_text_encode(text, bytes, input.len, options->special, &ids, &n, err);
        status = input_blame(options->file, status, err);
    }
    if (status == SLUICE_OK) {
        console_answer_ids(ids, n);
    }
    sluice_free(ids);
    buffer_free(&input);
    return status;
}

static sluice_status text_print(const sluice_text *text, const struct arg_ids *ids, sluice_error *err)
{
    char *bytes;
    size_t len;

    TRY(sluice_text_decode(text, ids->ids, ids->n, &bytes, &len, err));
    console_answer(bytes, len);
    console_answer_text("\n");
    sluice_free(bytes);
    return SLUICE_OK;
}

static sluice_status tokenize(const struct tokenize_options *options, sluice_error *err)
{
    char buf[PATH_MAX + 64];
    const char *dir;
    sluice_text *text;

    console_set_quiet(options->model.quiet);
    TRY(model_dir_find(&options->model, buf, sizeof buf, &dir, err));
    TRY(sluice_text_open(&text, dir, err));
    sluice_status status = options->ids.n > 0 ? text_print(text, &options->ids, err) : ids_print(text, options, err);
    sluice_text_close(&text);
    return status;
}

static int tokenize_run(int argc, char *const *argv)
{
    struct tokenize_options options = {0};
    sluice_error err;
    int result;

    if (command_parse(&tokenize_args, argc, argv, &options, &result)) {
        if ((options.prompt != NULL) + (options.file != NULL) + (options.ids.n > 0) != 1) {
            result = command_usage(&tokenize_args, "needs exactly one of -p, -f and --ids");
        } else {
            result = command_end(tokenize(&options, &err), &err);
        }
    }
    arg_ids_free(&options.ids);
    return result;
}

const struct command command_tokenize = {&tokenize_args, tokenize_run};
