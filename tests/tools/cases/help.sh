# The help comes from the tables.
for command in run chat logits tokenize inspect plan synth bench 'bench kernels' 'bench decode'; do
    show $command --help
done
sluice -h | cmp - <(sluice --help) && sluice run -n 3 -h | cmp - <(sluice run --help) && echo '-h is the same'
