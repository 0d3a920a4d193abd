/* sluice inspect: what is in a container, checked.
 *
 * The library describes a container as JSON; --json prints that as it is. The table for people follows its
 * shape: a member of an object is a line, an object inside is a section, a list of objects is a table with
 * one column a member. So a new figure needs no change here. */
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/line.h"
#include "command.h"
#include "console.h"
#include "numbers.h"
#include "options.h"

#define CELL_BYTES 128
#define NAME_WIDTH 28
#define INDENT 2
#define COLUMNS_MAX 12

struct inspect_options {
    struct model_choice model;
    bool json;
};

static const struct arg_option inspect_table[] = {
    {"--json", ARG_FLAG, offsetof(struct inspect_options, json), NULL, .help = "one JSON object instead of a table"},
    {0},
};

static const struct arg_command inspect_args = {
    "inspect",
    "[-m DIR] [--json]",
    "Checks a container and shows what is in it.",
    {inspect_table, model_table},
};

/* ---- One value ---- */

static void cell_set(char *cell, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Strings come from files of unknown origin: only what is printable reaches the terminal. */
static void cell_set(char *cell, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    line_format(cell, CELL_BYTES, fmt, args);
    va_end(args);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void integer_format(char *cell, const char *name, json_int_t value)
{
    char bytes[32];

    if (ends_with(name, "bytes") && value >= 1024) {
        number_format_bytes((uint64_t)value, bytes, sizeof bytes);
        cell_set(cell, "%" JSON_INTEGER_FORMAT " (%s)", value, bytes);
    } else {
        cell_set(cell, "%" JSON_INTEGER_FORMAT, value);
    }
}

static void list_format(char *cell, const json_t *list)
{
    char text[CELL_BYTES] = "";
    size_t i, used = 0;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        const char *comma = i > 0 ? ", " : "";
        int wrote = json_is_string(item)
                        ? snprintf(text + used, sizeof text - used, "%s%s", comma, json_string_value(item))
                        : snprintf(text + used, sizeof text - used, "%s%.9g", comma, json_number_value(item));
        used += wrote > 0 ? (size_t)wrote : 0;
        if (used >= sizeof text) {
            break;
        }
    }
    cell_set(cell, "%s%s", json_array_size(list) > 0 ? text : "none", used >= sizeof text ? "..." : "");
}

static void value_format(char *cell, const char *name, const json_t *value)
{
    if (json_is_integer(value)) {
        integer_format(cell, name, json_integer_value(value));
    } else if (json_is_real(value)) {
        cell_set(cell, "%.9g", json_real_value(value));
    } else if (json_is_string(value)) {
        cell_set(cell, "%s", json_string_value(value));
    } else if (json_is_array(value)) {
        list_format(cell, value);
    } else {
        cell_set(cell, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
    }
}

/* "expert_count" reads "expert count". */
static void name_format(char *cell, const char *name)
{
    cell_set(cell, "%s", name);
    for (char *c = cell; *c != '\0'; c++) {
        *c = *c == '_' ? ' ' : *c;
    }
}

/* ---- Lists of objects ---- */

static bool is_table(const json_t *value)
{
    return json_is_array(value) && json_is_object(json_array_get(value, 0));
}

/* Widths of the columns, which the first row names. */
static size_t table_measure(json_t *rows, size_t widths[COLUMNS_MAX])
{
    char cell[CELL_BYTES];
    size_t i, columns = 0;
    json_t *row, *value;
    const char *name;

    json_array_foreach(rows, i, row)
    {
        size_t column = 0;
        json_object_foreach(row, name, value)
        {
            if (column == COLUMNS_MAX) {
                break;
            }
            value_format(cell, name, value);
            size_t width = strlen(cell) > strlen(name) ? strlen(cell) : strlen(name);
            widths[column] = i > 0 && widths[column] > width ? widths[column] : width;
            column++;
        }
        columns = column > columns ? column : columns;
    }
    return columns;
}

static void row_print(json_t *row, int indent, const size_t widths[COLUMNS_MAX], size_t columns, bool heading)
{
    char cell[CELL_BYTES];
    size_t column = 0;
    json_t *value;
    const char *name;

    console_answer_printf("%*s", indent, "");
    json_object_foreach(row, name, value)
    {
        if (column == columns) {
            break;
        }
        if (heading) {
            name_format(cell, name);
        } else {
            value_format(cell, name, value);
        }
        bool last = column + 1 == columns;
        console_answer_printf("%-*s%s", last ? 0 : (int)widths[column], cell, last ? "" : "  ");
        column++;
    }
    console_answer_text("\n");
}

static void table_print(json_t *rows, int indent)
{
    size_t widths[COLUMNS_MAX] = {0};
    size_t columns = table_measure(rows, widths);
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        if (i == 0) {
            row_print(row, indent, widths, columns, true);
        }
        row_print(row, indent, widths, columns, false);
    }
}

/* ---- Objects ---- */

static void object_print(json_t *object, int indent)
{
    char cell[CELL_BYTES], title[CELL_BYTES];
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value)
    {
        name_format(title, name);
        if (json_is_object(value)) {
            console_answer_printf("%*s%s\n", indent, "", title);
            object_print(value, indent + INDENT);
        } else if (is_table(value)) {
            console_answer_printf("%*s%s\n", indent, "", title);
            table_print(value, indent + INDENT);
        } else {
            value_format(cell, name, value);
            console_answer_printf("%*s%-*s %s\n", indent, "", NAME_WIDTH - indent, title, cell);
        }
    }
}

/* ---- The command ---- */

static sluice_status inspect_print(const char *text, bool as_json, sluice_error *err)
{
    json_t *object;

    if (as_json) {
        console_answer_text(text);
        console_answer_text("\n");
        return SLUICE_OK;
    }
    TRY(json_parse(text, strlen(text), "the description", &object, err));
    object_print(object, 0);
    json_decref(object);
    return SLUICE_OK;
}

static sluice_status inspect(const struct inspect_options *options, sluice_error *err)
{
    sluice_engine_options callbacks;
    char buf[PATH_MAX + 64];
    const char *dir;
    char *text;

    console_set_quiet(options->model.quiet);
    TRY(model_dir_find(&options->model, buf, sizeof buf, &dir, err));
    sluice_engine_options_init(&callbacks);
    callbacks.message = console_message;
    callbacks.progress = console_progress;
    TRY(sluice_inspect(dir, &callbacks, &text, err));
    sluice_status status = inspect_print(text, options->json, err);
    sluice_free(text);
    return status;
}

static int inspect_run(int argc, char *const *argv)
{
    struct inspect_options options = {0};
    sluice_error err;
    int result;

    if (command_parse(&inspect_args, argc, argv, &options, &result)) {
        result = command_end(inspect(&options, &err), &err);
    }
    return result;
}

const struct command command_inspect = {&inspect_args, inspect_run};
