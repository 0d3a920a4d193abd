# A conversation through a pipe: plain lines, answers only on standard output.
feed 'What does happy mean?\nGive me a synonym.\nAnd the opposite?\n' chat
feed 'What does happy mean?\n/reset\nGive me a synonym.\n' chat
feed '\n   \n/help\n/nothing\n/quit now\n/quit\nWhat is a dog?\n' chat
feed '/system You know words.\nWhat is a dog?\n/system\n/system Another.\n/reset\nWhat is a cat?' chat
feed '//quit\n' chat -n 1 --quiet
feed 'What does happy mean?\n' chat -n 5
feed 'What does happy mean?\n' chat --stop ' or '
feed 'zero\0byte\nbroken \xc3(\nWhat is a dog?\n' chat
feed '' chat
feed 'What is a dog?\n/stats\n' chat --stats | sed -E 's/f32 on cpu .*/.../; s/read by .*,/read by ...,/' | hide_numbers
show chat -m "$DATA_SETS/basic" --quiet
