# What this version does not have is refused in one line.
show run -p a --device cuda
show run -p a --numerics q16
show plan --device cuda
show run -p a --cpu-features avx9
