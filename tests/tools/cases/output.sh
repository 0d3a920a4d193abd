# What cannot be written is a failure with one line.
to() { # to WHAT ARGS...: runs sluice with its standard output on file descriptor 7
    local what=$1
    shift
    sluice "$@" >&7 2>err </dev/null
    echo "$what: status $?"
    sed 's/^/! /' err
}
for command in 'run --chat -p hello' 'run --chat --json -p hello' 'tokenize -p a' 'tokenize --ids 1' inspect 'inspect --json' plan \
    'plan --json' --help 'run --help' --version; do
    echo "$command"
    exec 7>/dev/full
    to 'full device' $command
    rm -f pipe
    mkfifo pipe
    : <pipe &
    exec 7>pipe
    wait $!
    to 'closed pipe' $command
    exec 7>&-
    sluice $command >&- 2>err </dev/null
    echo "closed: status $?"
    sed 's/^/! /' err
done
echo hello >input
sluice tokenize -f - <&- 2>err
echo "no input: status $?"
cat err
feed 'hello\n' chat >/dev/null
exec 7>/dev/full
printf 'What is a dog?\nWhat is a cat?\n' | sluice chat --quiet >&7 2>err
echo "chat: status $?"
cat err
