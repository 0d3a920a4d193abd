# What the golden tests share; sourced by run_case.sh, with SLUICE, WORK, SLUICE_MODELS and SLUICE_DATA set.
# The current folder is empty and removed afterwards.

DATA_SETS=$SLUICE_DATA/oracle
DEMO=$SLUICE_MODELS/demo
QUESTION='What does happy mean?'

sluice() { "${SLUICE[@]}" "$@"; }

# show ARGS...: runs sluice without input and prints the command, its answer, its other lines behind "! ", its status.
show() {
    printf '$ sluice'
    printf ' %s' "$@"
    printf '\n'
    sluice "$@" </dev/null >"$WORK/out" 2>"$WORK/err"
    show_result $?
}

# feed TEXT ARGS...: the same with TEXT (printf escapes) as standard input.
feed() {
    local input=$1
    shift
    printf '$ sluice'
    printf ' %s' "$@"
    printf '\n'
    printf "$input" | sluice "$@" >"$WORK/out" 2>"$WORK/err"
    show_result $?
}

show_result() {
    cat "$WORK/out"
    [ ! -s "$WORK/out" ] || [ "$(tail -c 1 "$WORK/out" | od -An -tx1)" = " 0a" ] || echo "(no newline)"
    sed 's/^/! /' "$WORK/err"
    echo "= $1"
}

# Numbers that differ from machine to machine; the status stays.
hide_numbers() { sed -E '/^= [0-9]+$/!s/[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?/N/g; s/[KMGT]iB/B/g; s/  +/  /g'; }

# numbers_of FILE NAME: the first list of that name in a JSON file, as 1,2,3.
numbers_of() { tr -d ' \n' <"$1" | grep -o "\"$2\":\[[0-9,]*\]" | head -n 1 | sed -E 's/.*\[(.*)\]/\1/'; }

# wait_until COMMAND...: until it succeeds, at most two minutes.
wait_until() {
    local tries=0
    until "$@"; do
        tries=$((tries + 1))
        if [ $tries -gt 2400 ]; then
            echo "never happened: $*"
            return 1
        fi
        sleep 0.05
    done
}

# wait_for FILE PATTERN: until PATTERN stands in FILE.
wait_for() { wait_until grep -s -a -q -e "$2" "$1"; }

# wait_for_line FILE: until it has a whole line.
has_line() { [ -s "$1" ] && [ "$(wc -l <"$1")" -gt 0 ]; }
wait_for_line() { wait_until has_line "$1"; }

# ---- Broken containers ----

# clone NAME: a container of its own in ./NAME. Shards are links until own_shard makes a copy.
clone() {
    mkdir "$1"
    cp "$DEMO"/*.json "$1"
    rm -f "$1/reference.json"
    chmod u+w "$1"/*
    ln -s "$DEMO"/*.safetensors "$1"
}

# own_shard DIR SHARD: replaces the link by a copy and prints its path.
own_shard() {
    rm "$1/$2"
    cat "$DEMO/$2" >"$1/$2"
    echo "$1/$2"
}

# shard_of TENSOR: the shard that holds it.
shard_of() { basename "$(grep -a -l -F "\"$1\":" "$DEMO"/*.safetensors | head -n 1)"; }

# little_endian N: eight bytes.
little_endian() {
    local n=$1 i text=
    for i in 1 2 3 4 5 6 7 8; do
        text+=$(printf '\\x%02x' $((n & 255)))
        n=$((n >> 8))
    done
    printf "$text"
}

header_length() { od -An -t u8 -N 8 "$1" | tr -d ' '; }

# header_of FILE: its JSON.
header_of() { tail -c +9 "$1" | head -c "$(header_length "$1")"; }

# set_header FILE: puts standard input in the place of its header; the data stays.
set_header() {
    local old new
    old=$(header_length "$1")
    cat >"$WORK/header"
    new=$(stat -c %s "$WORK/header")
    {
        little_endian "$new"
        cat "$WORK/header"
        tail -c +$((9 + old)) "$1"
    } >"$WORK/shard"
    cat "$WORK/shard" >"$1"
}

# edit_header FILE SED-EXPRESSION: fails aloud if that changes nothing.
edit_header() {
    header_of "$1" >"$WORK/before"
    sed -E "$2" "$WORK/before" >"$WORK/after"
    cmp -s "$WORK/before" "$WORK/after" && echo "edit_header: nothing to change"
    set_header "$1" <"$WORK/after"
}

# tensor_offset FILE TENSOR: where its data begins in the file.
tensor_offset() {
    local begin
    begin=$(header_of "$1" | sed -E "s/.*\"${2//./\\.}\":\{[^}]*\"data_offsets\":\[([0-9]+),.*/\1/")
    echo $((8 + $(header_length "$1") + begin))
}

# poke FILE OFFSET BYTES: BYTES are printf escapes.
poke() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
