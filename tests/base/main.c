/* Tests of src/base. */
#include "tests.h"

int main(void)
{
    return run_error_tests() + run_memory_tests() + run_json_tests() + run_json_file_tests();
}
