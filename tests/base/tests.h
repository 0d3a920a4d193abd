/* The groups of tests of src/base; each returns how many failed. */
#ifndef SLUICE_TESTS_BASE_TESTS_H
#define SLUICE_TESTS_BASE_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int run_error_tests(void);
int run_json_tests(void);
int run_json_file_tests(void);
int run_memory_tests(void);

#endif
