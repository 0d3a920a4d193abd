# A question, asked in each way.
show run --chat -p "$QUESTION"
show run --chat -p "$QUESTION" -m "$DEMO"
feed "$QUESTION" run --chat -f -
printf '%s' "$QUESTION" >question
show run --chat -f question
show run --chat --json -p "$QUESTION"
show run --chat --system 'You know words.' -p 'What is a dog?'
show run -p 'As an adjective, happy' -n 6
show run --ids 4078,4080,4083,299,369,1962,88,274,30,4084,4086,4087
show run --ids 4078,4080,4083,299,369,1962,88,274,30,4084,4086,4087 -n 3
show run --ids 4078,4080,4083,299,369,1962,88,274,30,4084,4086,4087 -n 3 --quiet --json
