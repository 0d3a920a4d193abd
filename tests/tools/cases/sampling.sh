# The same seed gives the same tokens, whatever computes them; another seed gives others.
ask() { sluice run --quiet --chat -p 'Tell me about the sea.' -n 40 --temp 3 --top-p 0.98 --top-k 200 --min-p 0.001 "$@"; }
ask --seed 1 >one
ask --seed 1 --threads 1 --cpu-features scalar >same
ask --seed 2 >other
cmp one same && echo 'seed 1 twice: equal'
cmp -s one other || echo 'seed 2: different'
cat one
show run --quiet --chat -p "$QUESTION" --temp 1 --top-k 1
