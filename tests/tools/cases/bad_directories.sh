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
unprivileged='setpriv --bounding-set=-dac_override,-dac_read_search' # root may read everything, unless it gives that up
[ "$(id -u)" != 0 ] || SLUICE=($unprivileged "${SLUICE[@]}")
if [ "$(id -u)" = 0 ] && ! $unprivileged true 2>/dev/null; then # a root that may not even do that
    printf '%s\n' '$ sluice run -p a -m unreadable' \
        '! sluice: unreadable/out-00000.safetensors: cannot open: Permission denied' '= 1'
    SLUICE=("${SLUICE[@]:2}")
else
    show run -p a -m unreadable
fi
clone folder
rm folder/out-00003.safetensors
mkdir folder/out-00003.safetensors
show run -p a -m folder
# A tokenizer that came down in part, and none.
clone cut
rm cut/tokenizer.json
head -c 1000 "$DEMO/tokenizer.json" >cut/tokenizer.json
show run -p a -m cut
show inspect -m cut
rm cut/tokenizer.json
show inspect -m cut | tail -n 2
ls
