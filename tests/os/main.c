/* Tests of src/os. */
#include "tests.h"

int main(void)
{
    return run_cpu_tests() + run_pages_tests() + run_memory_tests() + run_file_tests() + run_replace_tests() +
           run_thread_pool_tests() + run_async_read_tests();
}
