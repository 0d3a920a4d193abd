# A model directory that is a file, missing, unreadable, empty.
for command in 'run -p a' 'logits --ids 1 -o out' inspect plan 'tokenize -p a'; do
    show $command -m nowhere
    echo text >file
    show $command -m file
    mkdir -p empty
    show $command -m empty
done
clone unreadable
own_shard unreadable out-00000.safetensors >/dev/null
chmod 000 unreadable/out-00000.safetensors
if [ "$(id -u)" = 0 ]; then # who may read everything
    printf '%s\n' '$ sluice run -p a -m unreadable' \
        '! sluice: unreadable/out-00000.safetensors: cannot open: Permission denied' '= 1'
else
    show run -p a -m unreadable
fi
clone folder
rm folder/out-00003.safetensors
mkdir folder/out-00003.safetensors
show run -p a -m folder
ls
