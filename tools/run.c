/* sluice run: one prompt, one answer.
 *
 * The prompt is a text, a file, or ids. A text is answered with text as it is generated; ids are answered
 * with ids, since whoever counts in ids may have no tokenizer; --json gives both, in one object, at the
 * end. Nothing is written before the whole prompt has been computed. */
#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "command.h"
#include "console.h"
#include "input.h"
#include "interrupt.h"
#include "options.h"
#include "progress.h"

#define ANSWER_LIMIT ((size_t)1 << 30) /* bytes of text kept for --json */

struct run_options {
    struct generation_choice generation;
    const char *prompt, *file;
    struct arg_ids ids;
    bool chat, json;
};

/* One run: what the functions below share. */
struct run {
    const struct run_options *options;
    sluice_engine *engine;
    sluice_session *session;
    bool has_tokenizer;
    const uint32_t *prompt; /* [n_prompt]: the ids given, or encoded */
    size_t n_prompt;
    uint32_t *encoded;
    struct buffer answer;        /* --json: the text so far */
    char last;                   /* last byte of text written, 0 for none */
    sluice_status answer_status; /* the buffer's */
};

#define AT(field) offsetof(struct run_options, field)

static const struct arg_option run_table[] = {
    {"-p", ARG_TEXT, AT(prompt), "TEXT", .help = "the prompt"},
    {"-f", ARG_TEXT, AT(file), "FILE", .help = "the prompt from a file, as it is; - is standard input"},
    {"--ids", ARG_IDS, AT(ids), "LIST", .help = "the prompt as token ids such as 1,2,3; answers with ids"},
    {"--chat", ARG_FLAG, AT(chat), NULL, .help = "put the prompt in the model's chat form"},
    {"--json", ARG_FLAG, AT(json), NULL, .help = "answer with one JSON object: counts, stop reason, ids, text"},
    {0},
};

static const struct arg_command run_args = {
    "run",
    "[-m DIR] (-p TEXT | -f FILE | --ids LIST) [options]",
    "Answers a prompt.",
    {run_table, generation_table, model_table, engine_table, stats_table},
};

/* ---- The prompt ---- */

static sluice_status prompt_encode(struct run *run, const char *text, size_t len, sluice_error *err)
{
    const struct generation_choice *generation = &run->options->generation;
    sluice_message messages[2];
    size_t n = 0;

    if (!run->options->chat) {
        return sluice_tokenize(run->engine, text, len, false, &run->encoded, &run->n_prompt, err);
    }
    if (memchr(text, '\0', len) != NULL) {
        return error_set(err, SLUICE_INVALID, "a text with a zero byte is no message");
    }
    if (generation->system != NULL) {
        messages[n++] = (sluice_message){SLUICE_SYSTEM, generation->system};
    }
    messages[n++] = (sluice_message){SLUICE_USER, text};
    return sluice_chat_tokenize(run->engine, messages, n, generation->think, &run->encoded, &run->n_prompt, err);
}

static sluice_status prompt_read(struct run *run, sluice_error *err)
{
    struct buffer text;

    if (run->options->ids.n > 0) {
        run->prompt = run->options->ids.ids;
        run->n_prompt = run->options->ids.n;
        return SLUICE_OK;
    }
    buffer_init(&text, INPUT_LIMIT);
    sluice_status status = input_read(&text, run->options->prompt, run->options->file, err);
    if (status == SLUICE_OK) {
        status = prompt_encode(run, text.data != NULL ? text.data : "", text.len, err);
        status = input_blame(run->options->file, status, err);
        run->prompt = run->encoded;
    }
    buffer_free(&text);
    return status;
}

static sluice_status prompt_check(const struct run *run, sluice_error *err)
{
    sluice_engine_info info;

    sluice_engine_get_info(run->engine, &info);
    if (run->n_prompt == 0) {
        return error_set(err, SLUICE_INVALID, "the prompt is empty");
    }
    if (run->n_prompt > info.context) {
        return error_set(err, SLUICE_CONTEXT_FULL, "the prompt has %zu tokens, the context holds %" PRIu32,
                         run->n_prompt, info.context);
    }
    return SLUICE_OK;
}

/* ---- The answer ---- */

static bool text_take(void *user, const char *text, size_t len)
{
    struct run *run = user;

    if (run->options->json) {
        run->answer_status = buffer_append(&run->answer, text, len, NULL);
        return run->answer_status == SLUICE_OK;
    }
    if (len > 0) {
        run->last = text[len - 1];
    }
    console_answer(text, len);
    return console_flush();
}

/* The ids generated so far, in the session's own memory. */
static const uint32_t *generated_ids(const struct run *run, size_t *n)
{
    size_t total;
    const uint32_t *ids = sluice_session_tokens(run->session, &total);

    *n = total - run->n_prompt;
    return ids + run->n_prompt;
}

static json_t *answer_object(const struct run *run, sluice_stop stop)
{
    static const char *const names[] = {
        [SLUICE_STOP_EOS] = "eos",         [SLUICE_STOP_STRING] = "stop",   [SLUICE_STOP_LIMIT] = "length",
        [SLUICE_STOP_CONTEXT] = "context", [SLUICE_STOP_CALLER] = "caller", [SLUICE_STOP_CANCELLED] = "cancelled",
    };
    size_t n;
    const uint32_t *ids = generated_ids(run, &n);
    json_t *list = json_array();
    json_t *text = run->has_tokenizer ? json_stringn(run->answer.data != NULL ? run->answer.data : "", run->answer.len)
                                      : json_null();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_integer(ids[i]));
    }
    return json_pack("{s:I, s:I, s:s, s:o, s:o}", "prompt_tokens", (json_int_t)run->n_prompt, "generated_tokens",
                     (json_int_t)n, "stop", names[stop], "ids", list, "text", text);
}

static sluice_status answer_end(struct run *run, sluice_stop stop, sluice_error *err)
{
    if (run->options->json) {
        json_t *object = answer_object(run, stop);
        if (object == NULL) {
            return error_set(err, SLUICE_NO_MEMORY, "no memory for the answer");
        }
        console_answer_json(object);
        json_decref(object);
    } else if (run->options->ids.n > 0) {
        size_t n;
        const uint32_t *ids = generated_ids(run, &n);
        console_answer_ids(ids, n);
    } else if (run->last != '\n') {
        console_answer_text("\n");
    }
    return console_finish(err);
}

static void stop_note(const struct run *run, sluice_stop stop)
{
    sluice_engine_info info;

    sluice_engine_get_info(run->engine, &info);
    if (stop == SLUICE_STOP_LIMIT) {
        console_note("stopped after %" PRIu32 " tokens, as -n says", run->options->generation.max_tokens);
    } else if (stop == SLUICE_STOP_CONTEXT) {
        console_note("stopped: the context of %" PRIu32 " tokens is full", info.context);
    }
}

static sluice_status answer(struct run *run, sluice_error *err)
{
    const struct generation_choice *generation = &run->options->generation;
    bool wants_text = run->has_tokenizer && (run->options->json || run->options->ids.n == 0);
    sluice_generate_options options = {
        .max_tokens = generation->max_tokens,
        .stop_strings = generation->stops.items,
        .n_stop_strings = generation->stops.n,
        .text = wants_text ? text_take : NULL,
        .user = run,
    };
    sluice_stop stop;

    sluice_status status = sluice_session_generate(run->session, &options, &stop, NULL, err);
    if (status != SLUICE_OK) {
        if (run->last != '\0' && run->last != '\n') {
            console_answer_text("\n"); /* the reason begins a line of its own */
        }
        return status;
    }
    if (run->answer_status != SLUICE_OK) {
        return error_set(err, run->answer_status, "the answer is too long to be kept for --json");
    }
    TRY(answer_end(run, stop, err));
    if (stop == SLUICE_STOP_CANCELLED) {
        return error_set(err, SLUICE_CANCELLED, "interrupted");
    }
    stop_note(run, stop);
    return SLUICE_OK;
}

static sluice_status run_prompt(struct run *run, sluice_error *err)
{
    sluice_engine_info info;

    sluice_engine_get_info(run->engine, &info);
    run->has_tokenizer = info.has_tokenizer;
    TRY(prompt_read(run, err));
    TRY(prompt_check(run, err));
    TRY(sluice_session_open(&run->session, run->engine, err));
    TRY(sluice_session_set_sampling(run->session, &run->options->generation.sampling, err));
    interrupt_watch(run->session, true);
    sluice_status status = sluice_session_sync(run->session, run->prompt, run->n_prompt, err);
    if (status == SLUICE_CANCELLED) {
        return error_set(err, status, "interrupted");
    }
    if (status == SLUICE_OK) {
        status = answer(run, err);
    }
    return status;
}

static sluice_status run_all(const struct run_options *options, sluice_error *err)
{
    struct run run = {.options = options};

    buffer_init(&run.answer, ANSWER_LIMIT);
    TRY(engine_choice_open(&options->generation.engine, &run.engine, err));
    sluice_status status = run_prompt(&run, err);
    if (status == SLUICE_OK || status == SLUICE_CANCELLED) {
        stats_report(run.engine, options->generation.engine.stats);
    }
    interrupt_unwatch();
    progress_watch_engine(NULL);
    sluice_free(run.encoded);
    buffer_free(&run.answer);
    sluice_session_close(&run.session);
    sluice_engine_close(&run.engine, NULL);
    return status;
}

/* ---- Usage ---- */

static const char *run_misuse(const struct run_options *options)
{
    if ((options->prompt != NULL) + (options->file != NULL) + (options->ids.n > 0) != 1) {
        return "needs exactly one of -p, -f and --ids";
    }
    if (options->chat && options->ids.n > 0) {
        return "--chat needs a text, not --ids";
    }
    if (!options->chat && (options->generation.system != NULL || options->generation.think)) {
        return "--system and --think need --chat";
    }
    return NULL;
}

static int run_run(int argc, char *const *argv)
{
    struct run_options options = {0};
    sluice_error err;
    int result;

    generation_choice_init(&options.generation);
    if (command_parse(&run_args, argc, argv, &options, &result)) {
        const char *misuse = run_misuse(&options);
        result = misuse != NULL ? command_usage(&run_args, "%s", misuse) : command_end(run_all(&options, &err), &err);
    }
    arg_ids_free(&options.ids);
    return result;
}

const struct command command_run = {&run_args, run_run};
