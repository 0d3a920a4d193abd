# Every misuse is one line and exit status 2.
show
show --help
show --version
show dance
show --dance
show run
show run -p
show run -p a -f b
show run -p ''
show run -p a --ids 1
show run --ids 1 --chat
show run --ids 1,
show run --ids 1 --stop ''
show run -p a --think
show run -p a --system b
show run -p a -n 0
show run -p a -n 5x
show run -p a --temp hot
show run -p a --temp -1
show run -p a --top-p 0
show run -p a --top-p 1.5
show run -p a --min-p 2
show run -p a --memory 24GB
show run -p a --memory 0
show run -p a --threads 0
show run -p a --threads 5000
show run -p a --device tpu
show run -p a --numerics f16
show run -p a --stats=xml
show run -p a --cpu-features
show run -p a extra
show logits -o x
show logits --ids 1
show tokenize
show tokenize -p a --ids 1
show inspect --memory 4G
show plan --context -5
show synth
show synth a b
show synth a --layers 0
show synth a --mtp 2
show bench
show bench storage
show bench decode --runs 0
show chat now
