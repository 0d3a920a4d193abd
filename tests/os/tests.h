/* The groups of tests of src/os; each returns how many failed. */
#ifndef SLUICE_TESTS_OS_TESTS_H
#define SLUICE_TESTS_OS_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int run_async_read_tests(void);
int run_cpu_tests(void);
int run_file_tests(void);
int run_memory_tests(void);
int run_pages_tests(void);
int run_replace_tests(void);
int run_thread_pool_tests(void);

#endif
