/* What the tests of the container module share. */
#ifndef SLUICE_TESTS_CONTAINER_TESTS_H
#define SLUICE_TESTS_CONTAINER_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "container/container.h"
#include "support/temp_dir.h"

/* A refusal: its status, one printable line, and what the line must name. fragments is a list ended by NULL. */
void assert_error(sluice_status status, const sluice_error *err, sluice_status expected, const char *const *fragments);

/* container_open refuses the directory. The names are those the message must hold. */
#define assert_open_refused(dir, expected, ...) \
    assert_open_refused_list(dir, expected, (const char *const[]){__VA_ARGS__, NULL})
void assert_open_refused_list(const struct temp_dir *dir, sluice_status expected, const char *const *fragments);

/* Collects log messages, one a line. */
struct log_lines {
    char text[4096];
    size_t len;
    unsigned n;
    uint64_t done, total; /* of the last progress report */
    unsigned progress;    /* reports */
};
struct log log_into(struct log_lines *lines);

/* container_open succeeds, logging into lines (may be NULL). */
struct container *assert_opens(const char *dir, struct log_lines *lines);

int run_config_tests(void);
int run_header_tests(void);
int run_shard_tests(void);
int run_open_tests(void);
int run_kind_tests(void);
int run_value_tests(void);
int run_describe_tests(void);
int run_synth_tests(void);
int run_fault_tests(void);
int run_mutation_tests(void);

#endif
