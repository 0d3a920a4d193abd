/* Lines through libedit on a terminal, through getline elsewhere: see line_editor.h. */
#include "line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "interrupt.h"

#define HISTORY_LINES 1000

struct line_editor {
    EditLine *edit; /* NULL: plain lines */
    History *history;
    char *line; /* owned */
    size_t cap;
};

static char *prompt_text(EditLine *edit)
{
    static char prompt[] = "> ";

    (void)edit;
    return prompt;
}

/* Characters of more than one byte can only be edited in a UTF-8 locale; the programs' default one is not. */
static void locale_ensure_utf8(void)
{
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        setlocale(LC_CTYPE, "C.UTF-8");
    }
}

static sluice_status editor_open_terminal(struct line_editor *editor, sluice_error *err)
{
    HistEvent event;

    locale_ensure_utf8();
    editor->edit = el_init("sluice", stdin, stderr, stderr);
    editor->history = history_init();
    if (editor->edit == NULL || editor->history == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "the line editor cannot start");
    }
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->edit, EL_PROMPT, prompt_text);
    el_set(editor->edit, EL_EDITOR, "emacs");
    el_set(editor->edit, EL_HIST, history, editor->history);
    el_set(editor->edit, EL_SIGNAL, 1);
    return SLUICE_OK;
}

sluice_status line_editor_open(struct line_editor **out, sluice_error *err)
{
    struct line_editor *editor = mem_zalloc(1, sizeof *editor);

    if (editor == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "the line editor cannot start");
    }
    if (isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0) {
        sluice_status status = editor_open_terminal(editor, err);
        if (status != SLUICE_OK) {
            line_editor_close(&editor);
            return status;
        }
    }
    *out = editor;
    return SLUICE_OK;
}

void line_editor_close(struct line_editor **editor)
{
    struct line_editor *closing = *editor;

    if (closing == NULL) {
        return;
    }
    if (closing->edit != NULL) {
        el_end(closing->edit);
    }
    if (closing->history != NULL) {
        history_end(closing->history);
    }
    free(closing->line);
    free(closing);
    *editor = NULL;
}

bool line_editor_is_interactive(const struct line_editor *editor)
{
    return editor->edit != NULL;
}

/* Bytes of the next line in editor->line, newline included; 0 at the end, -1 with errno on failure. */
static ssize_t line_fetch(struct line_editor *editor)
{
    if (editor->edit == NULL) {
        clearerr(stdin);
        errno = 0;
        ssize_t len = getline(&editor->line, &editor->cap, stdin);
        return len < 0 && feof(stdin) ? 0 : len;
    }
    int len = 0;
    HistEvent event;
    const char *typed = el_gets(editor->edit, &len);
    if (typed == NULL) {
        return len == 0 ? 0 : -1;
    }
    char *copy = strdup(typed);
    if (copy == NULL) {
        return -1;
    }
    free(editor->line);
    editor->line = copy;
    if (copy[strspn(copy, " \t\n")] != '\0') {
        history(editor->history, &event, H_ENTER, copy);
    }
    return len;
}

sluice_status line_editor_read(struct line_editor *editor, enum line_event *event, const char **line, sluice_error *err)
{
    interrupt_clear();
    ssize_t len = line_fetch(editor);
    int saved = errno;

    if (len <= 0 && interrupt_happened()) {
        interrupt_clear();
        if (editor->edit != NULL) {
            fputc('\n', stderr);
        }
        *event = LINE_INTERRUPTED;
        return SLUICE_OK;
    }
    if (len < 0) {
        return error_set_errno(err, SLUICE_IO, saved, "standard input");
    }
    if (len == 0) {
        *event = LINE_END;
        return SLUICE_OK;
    }
    if (strlen(editor->line) != (size_t)len) {
        return error_set(err, SLUICE_INVALID, "a line with a zero byte is not text");
    }
    if (editor->line[len - 1] == '\n') {
        editor->line[len - 1] = '\0';
    }
    *event = LINE_TEXT;
    *line = editor->line;
    return SLUICE_OK;
}
