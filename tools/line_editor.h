/* Lines a person types, or a pipe brings.
 *
 * On a terminal: editing, a history of this session, UTF-8; the prompt goes to standard error, so that
 * standard output holds answers only. Otherwise plain lines without a prompt. */
#ifndef SLUICE_TOOLS_LINE_EDITOR_H
#define SLUICE_TOOLS_LINE_EDITOR_H

#include <stdbool.h>

#include "base/error.h"

struct line_editor;

enum line_event {
    LINE_TEXT,        /* a line */
    LINE_END,         /* Ctrl-D on an empty line, or the end of the input */
    LINE_INTERRUPTED, /* Ctrl-C: what was typed is dropped */
};

sluice_status line_editor_open(struct line_editor **out, sluice_error *err);
void line_editor_close(struct line_editor **editor); /* safe on NULL; restores the terminal */
bool line_editor_is_interactive(const struct line_editor *editor);

/* *line is without its newline, zero-terminated, and valid until the next call. SLUICE_INVALID for a line that
 * holds a zero byte, SLUICE_IO if the input cannot be read. */
sluice_status line_editor_read(struct line_editor *editor, enum line_event *event, const char **line,
                               sluice_error *err);

#endif
