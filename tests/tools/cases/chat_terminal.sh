# On a terminal: line editing, Ctrl-C during an answer and at the prompt, Ctrl-D. The terminal is script(1)'s.
command -v script >/dev/null || { echo SKIPPED; exit; }
words=$(printf '%q ' "${SLUICE[@]}")

# on_terminal ARGS...: starts sluice on a terminal that shows ./screen; keys go to file descriptor 8. The shell ignores
# interrupts in what it starts in the background, sluice must not; the one that script starts steps aside, since it would
# end by an interrupt that sluice takes.
on_terminal() {
    rm -f keys screen
    mkfifo keys
    env --default-signal=INT script -q -f -e -c "exec $words$*" screen <keys >/dev/null 2>&1 &
    exec 8>keys
    wait_for screen '> '
}

# An answer at this temperature is noise, and as long as the context if nobody stops it.
on_terminal chat --threads 1 --cpu-features scalar --temp 100 --seed 1
printf '/helq\177p\r' >&8
wait_for screen '/reset  ' && echo 'the line was edited'
printf 'Hello\r' >&8
answering() { tail -n 1 screen | grep -a -q -v '> '; } # the last line is no longer the question
wait_until answering
printf '\003' >&8
wait_for screen '(stopped)' && echo 'Ctrl-C stopped the answer'
printf 'half a line\003' >&8
wait_for screen 'Ctrl-C again' && echo 'Ctrl-C dropped the line'
printf '/system Gr\303\274n\r' >&8
wait_for screen 'system message set' && echo 'and the program went on'
printf '\004' >&8
wait $!
echo "Ctrl-D: status $?"
exec 8>&-

on_terminal chat --quiet
printf '\003' >&8
wait_for screen 'Ctrl-C again'
printf '\003' >&8
wait $!
echo "Ctrl-C twice: status $?"
