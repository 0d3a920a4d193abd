# Ids of texts and texts of ids.
show tokenize -p "$QUESTION"
show tokenize --ids 299,369,1962,88,274,30
show tokenize -p '[gMASK]<sop><|user|>Hi'
show tokenize -p '[gMASK]<sop><|user|>Hi' --special
show tokenize --ids 4078,4080,4083
show tokenize -p ''
feed 'two\nlines\n' tokenize -f -
round_trip() {
    ids=$(printf "$1" | sluice tokenize -f -)
    sluice tokenize --ids "$ids" >back
    printf "$1\n" | cmp - back && echo "equal after the round trip: $ids"
}
round_trip '  spaces  and\ttabs\r\n\n'
round_trip 'Grüße, 世界 🙂 – naïve e\xcc\x81'
round_trip '1234567 12 3.14'
feed 'broken \xc3(' tokenize -f -
show tokenize --ids 4096
show tokenize -m nowhere -p a
mkdir bare
show tokenize -m bare -p a
