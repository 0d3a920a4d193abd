# A plan is a table or JSON; one that does not fit is exit status 1 and says the smallest change.
show plan | hide_numbers | sed -E 's/(limit given by).*/\1  .../'
show plan --json | hide_numbers | sed -E 's/"limit_from":"[^"]*"/"limit_from":"..."/'
show plan --memory 8M --quiet | hide_numbers
show plan --memory 8M --json | hide_numbers
show run -p a --memory 8M | hide_numbers
# What the advice says can be typed.
size=$(sluice plan --memory 8M --json 2>/dev/null | sed -E 's/.*"raise the limit to ([0-9.]+) ([MG]iB)".*/\1\2/')
show run -p a --memory "$size" -n 1 --quiet | hide_numbers
show logits --ids 1 -o out --memory 8M | hide_numbers
ls
# The lines add up to the total.
sluice plan --json >json
sum=$(sed 's/.*"lines"/"lines"/' json | grep -o '"bytes":[0-9]*' | cut -d: -f2 | paste -sd+)
[ "$((sum))" = "$(sed -E 's/.*"total":([0-9]+).*/\1/' json)" ] && echo 'the lines add up'
