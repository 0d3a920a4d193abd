/* sluice chat: a conversation, line by line.
 *
 * Every turn hands the whole conversation to the session, which keeps what it has computed already. A turn
 * becomes part of the conversation when it brought an answer, or a part of one; a turn that failed or was
 * stopped before that is forgotten, and the conversation goes on. Nothing is ever cut from it silently:
 * when the context is full, the turn is refused until the person starts over. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "command.h"
#include "console.h"
#include "conversation.h"
#include "interrupt.h"
#include "line_editor.h"
#include "options.h"
#include "progress.h"

#define ANSWER_LIMIT ((size_t)64 << 20) /* bytes of one answer */

struct chat {
    struct generation_choice *options;
    sluice_engine *engine;
    sluice_session *session;
    struct line_editor *editor;
    struct conversation conversation;
    struct buffer answer; /* of the turn in progress */
    uint32_t context;
};

static const struct arg_option no_options[] = {{0}};

static const struct arg_command chat_args = {
    "chat",
    "[-m DIR] [options]",
    "Holds a conversation. /help lists what else a line can say.",
    {no_options, generation_table, model_table, engine_table, stats_table},
};

/* ---- One turn ---- */

static bool text_take(void *user, const char *text, size_t len)
{
    struct chat *chat = user;

    console_answer(text, len);
    return buffer_append(&chat->answer, text, len, NULL) == SLUICE_OK && console_flush() && !interrupt_happened();
}

/* Makes the session's context the conversation. */
static sluice_status turn_prefill(struct chat *chat, sluice_error *err)
{
    const struct conversation *conversation = &chat->conversation;
    uint32_t *ids;
    size_t n;

    TRY(sluice_chat_tokenize(chat->engine, conversation->messages, conversation->n, chat->options->think, &ids, &n,
                             err));
    sluice_status status = n > chat->context ? error_set(err, SLUICE_CONTEXT_FULL,
                                                         "the conversation has %zu tokens, the context holds %" PRIu32
                                                         "; /reset starts a new one",
                                                         n, chat->context)
                                             : sluice_session_sync(chat->session, ids, n, err);
    sluice_free(ids);
    return status;
}

static sluice_status turn_generate(struct chat *chat, sluice_stop *stop, sluice_error *err)
{
    sluice_generate_options options = {
        .max_tokens = chat->options->max_tokens,
        .stop_strings = chat->options->stops.items,
        .n_stop_strings = chat->options->stops.n,
        .text = text_take,
        .user = chat,
    };

    if (interrupt_happened()) {
        *stop = SLUICE_STOP_CANCELLED;
        return SLUICE_OK;
    }
    TRY(sluice_session_generate(chat->session, &options, stop, NULL, err));
    if (*stop == SLUICE_STOP_CALLER && interrupt_happened()) {
        *stop = SLUICE_STOP_CANCELLED; /* an interrupt that came just before generate cleared the session's flag */
    }
    return SLUICE_OK;
}

/* What later turns are told was answered: without the thinking. */
static const char *answer_spoken(const struct chat *chat)
{
    static const char end_of_thought[] = "</think>";
    const char *answer = chat->answer.data != NULL ? chat->answer.data : "";
    const char *end = chat->options->think ? strstr(answer, end_of_thought) : NULL;

    return end != NULL ? end + strlen(end_of_thought) : answer;
}

static void stop_say(const struct chat *chat, sluice_stop stop)
{
    switch (stop) {
    case SLUICE_STOP_CONTEXT:
        console_say("(the context of %" PRIu32 " tokens is full: the answer ends here; /reset starts a new one)",
                    chat->context);
        break;
    case SLUICE_STOP_LIMIT:
        console_say("(stopped after %" PRIu32 " tokens, as -n says)", chat->options->max_tokens);
        break;
    case SLUICE_STOP_CANCELLED:
        console_say("(stopped)");
        break;
    case SLUICE_STOP_CALLER:
        if (console_flush()) {
            console_say("(the answer is longer than %zu bytes)", chat->answer.limit);
        }
        break;
    case SLUICE_STOP_EOS:
    case SLUICE_STOP_STRING:
        break;
    }
}

/* Ends the line of what was written, then says why the answer ended. */
static void turn_say_end(struct chat *chat, sluice_status status, sluice_stop stop, const sluice_error *err)
{
    if (chat->answer.len > 0 && chat->answer.data[chat->answer.len - 1] != '\n') {
        console_answer_text("\n");
    }
    if (status == SLUICE_OK) {
        stop_say(chat, stop);
    } else if (status == SLUICE_CANCELLED) {
        stop_say(chat, SLUICE_STOP_CANCELLED);
    } else {
        console_error(err);
    }
    console_flush();
}

/* Fails only when the conversation cannot be kept; a turn that failed has said so. */
static sluice_status turn_take(struct chat *chat, const char *text, sluice_error *err)
{
    sluice_stop stop = SLUICE_STOP_EOS;
    sluice_error why;

    TRY(conversation_push(&chat->conversation, SLUICE_USER, text, err));
    buffer_clear(&chat->answer);
    sluice_status status = turn_prefill(chat, &why);
    if (status == SLUICE_OK) {
        status = turn_generate(chat, &stop, &why);
    }
    turn_say_end(chat, status, stop, &why);
    bool ended = status == SLUICE_OK && (stop == SLUICE_STOP_EOS || stop == SLUICE_STOP_STRING);
    if (chat->answer.len == 0 && !ended) {
        conversation_pop(&chat->conversation);
        return SLUICE_OK;
    }
    return conversation_push(&chat->conversation, SLUICE_ASSISTANT, answer_spoken(chat), err);
}

/* ---- Lines ---- */

static void help_say(void)
{
    console_say("/help          this list");
    console_say("/reset         forget the conversation; the system message stays");
    console_say("/system TEXT   set the system message; without TEXT, remove it");
    console_say("/stats         speed, hits, reads, memory so far");
    console_say("/quit          leave, as Ctrl-D does");
    console_say("//...          a message that begins with a slash");
    console_say("Ctrl-C         stop the answer; at the prompt, drop the line, and twice in a row: leave");
}

static sluice_status system_set(struct chat *chat, const char *text, sluice_error *err)
{
    text += strspn(text, " \t");
    TRY(conversation_set_system(&chat->conversation, *text != '\0' ? text : NULL, err));
    console_say(*text != '\0' ? "(system message set)" : "(system message removed)");
    return SLUICE_OK;
}

/* A line that begins with one slash. *leave is set by /quit. */
static sluice_status command_obey(struct chat *chat, const char *line, bool *leave, sluice_error *err)
{
    size_t len = strcspn(line, " \t");
    bool bare = line[len + strspn(line + len, " \t")] == '\0';

    if (len == strlen("/system") && strncmp(line, "/system", len) == 0) {
        return system_set(chat, line + len, err);
    }
    if (bare && len == strlen("/help") && strncmp(line, "/help", len) == 0) {
        help_say();
    } else if (bare && len == strlen("/reset") && strncmp(line, "/reset", len) == 0) {
        conversation_reset(&chat->conversation);
        console_say("(new conversation)");
    } else if (bare && len == strlen("/stats") && strncmp(line, "/stats", len) == 0) {
        stats_report(chat->engine, STATS_TABLE);
    } else if (bare && len == strlen("/quit") && strncmp(line, "/quit", len) == 0) {
        *leave = true;
    } else {
        console_say("(unknown command %.40s; /help lists them)", line);
    }
    return SLUICE_OK;
}

static sluice_status line_obey(struct chat *chat, const char *line, bool *leave, sluice_error *err)
{
    if (line[strspn(line, " \t\r")] == '\0') {
        return SLUICE_OK;
    }
    if (line[0] == '/' && line[1] != '/') {
        return command_obey(chat, line, leave, err);
    }
    TRY(turn_take(chat, line[0] == '/' ? line + 1 : line, err));
    return console_finish(err);
}

static sluice_status lines_obey(struct chat *chat, sluice_error *err)
{
    bool leave = false, interrupted = false;
    enum line_event event;
    const char *line;

    while (!leave) {
        sluice_status status = line_editor_read(chat->editor, &event, &line, err);
        if (status == SLUICE_INVALID) {
            console_error(err);
            continue;
        }
        TRY(status);
        leave = event == LINE_END || (event == LINE_INTERRUPTED && interrupted);
        interrupted = event == LINE_INTERRUPTED;
        if (event == LINE_TEXT) {
            TRY(line_obey(chat, line, &leave, err));
        } else if (leave && line_editor_is_interactive(chat->editor)) {
            console_say("%s", "");
        } else if (interrupted) {
            console_say("(Ctrl-C again or Ctrl-D leaves)");
        }
    }
    return SLUICE_OK;
}

/* ---- The command ---- */

static sluice_status chat_start(struct chat *chat, sluice_error *err)
{
    sluice_engine_info info;

    sluice_engine_get_info(chat->engine, &info);
    if (!info.has_tokenizer) {
        return error_set(err, SLUICE_UNSUPPORTED, "this model has no tokenizer.json, and chat needs one");
    }
    chat->context = info.context;
    TRY(sluice_session_open(&chat->session, chat->engine, err));
    TRY(sluice_session_set_sampling(chat->session, &chat->options->sampling, err));
    TRY(conversation_set_system(&chat->conversation, chat->options->system, err));
    TRY(line_editor_open(&chat->editor, err));
    if (line_editor_is_interactive(chat->editor)) {
        console_note("type a message; /help lists commands, Ctrl-C stops an answer, Ctrl-D leaves");
    }
    interrupt_watch(chat->session, false);
    return SLUICE_OK;
}

static sluice_status chat_hold(struct generation_choice *options, sluice_error *err)
{
    struct chat chat = {.options = options};

    TRY(engine_choice_open(&options->engine, &chat.engine, err));
    buffer_init(&chat.answer, ANSWER_LIMIT);
    sluice_status status = chat_start(&chat, err);
    if (status == SLUICE_OK) {
        status = lines_obey(&chat, err);
        stats_report(chat.engine, options->engine.stats);
    }
    interrupt_unwatch();
    progress_watch_engine(NULL);
    line_editor_close(&chat.editor);
    conversation_free(&chat.conversation);
    buffer_free(&chat.answer);
    sluice_session_close(&chat.session);
    sluice_engine_close(&chat.engine, NULL);
    return status;
}

static int chat_run(int argc, char *const *argv)
{
    struct generation_choice options;
    sluice_error err;
    int result;

    generation_choice_init(&options);
    if (command_parse(&chat_args, argc, argv, &options, &result)) {
        result = command_end(chat_hold(&options, &err), &err);
    }
    return result;
}

const struct command command_chat = {&chat_args, chat_run};
