/* Asks a model one question through the public interface and prints the answer as it comes.
 *
 *   cc ask.c $(pkg-config --cflags --libs sluice) -o ask
 *   ./ask MODEL_DIR "What does happy mean?"
 */
#include <sluice/sluice.h>
#include <stdbool.h>
#include <stdio.h>

static bool print_text(void *user, const char *text, size_t len)
{
    return fwrite(text, 1, len, user) == len && fflush(user) == 0;
}

/* One question, one answer, on a session of its own. */
static sluice_status ask(sluice_engine *engine, const char *question, sluice_error *error)
{
    sluice_session *session = NULL;
    uint32_t *ids = NULL;
    size_t n_ids = 0;
    const sluice_message message = {SLUICE_USER, question};

    sluice_status status = sluice_session_open(&session, engine, error);
    if (status == SLUICE_OK) {
        status = sluice_chat_tokenize(engine, &message, 1, false, &ids, &n_ids, error);
    }
    if (status == SLUICE_OK) {
        status = sluice_session_sync(session, ids, n_ids, error);
    }
    if (status == SLUICE_OK) {
        sluice_generate_options options = {.text = print_text, .user = stdout};
        sluice_stop stop = SLUICE_STOP_EOS;
        size_t n_tokens = 0;
        status = sluice_session_generate(session, &options, &stop, &n_tokens, error);
    }
    sluice_free(ids);
    sluice_session_close(&session);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: ask MODEL_DIR QUESTION\n");
        return 2;
    }
    sluice_engine_options options;
    sluice_engine_options_init(&options);
    options.model_dir = argv[1];

    sluice_engine *engine = NULL;
    sluice_error error = {0};
    sluice_status status = sluice_engine_open(&engine, &options, &error);
    if (status == SLUICE_OK) {
        status = ask(engine, argv[2], &error);
        putchar('\n');
    }
    sluice_engine_close(&engine, NULL);
    if (status != SLUICE_OK) {
        fprintf(stderr, "ask: %s\n", error.message);
        return 1;
    }
    return 0;
}
