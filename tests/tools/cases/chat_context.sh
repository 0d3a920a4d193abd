# A full context ends the answer, says so, and is never cut: the person starts over.
feed 'What does happy mean?\nGive me a synonym.\n/reset\nWhat is a dog?\n' chat --context 36
feed 'Give me a synonym of a very long word that does not fit into the context.\nWhat is a dog?\n' chat --context 14
