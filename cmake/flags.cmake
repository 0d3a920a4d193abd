# Compiler flags that every target shares.
# -ffp-contract=off: a fused multiply-add happens only where the source says fma (docs/numerics.md).
add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2
                    -ffp-contract=off -fno-math-errno -fno-strict-aliasing)
add_compile_definitions(_GNU_SOURCE _FILE_OFFSET_BITS=64)
if(SLUICE_WERROR)
  add_compile_options(-Werror)
endif()
if(SLUICE_SANITIZE)
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
  add_compile_definitions(SLUICE_SANITIZED)
endif()
