# What the shipped model and a container without a draft layer hold.
show inspect
show inspect --json -m "$DATA_SETS/grouped" | head -n 4
sluice inspect --quiet --json -m "$DATA_SETS/grouped" | tr -d ' \n' | grep -o '"roles".*'
clone undrafted
rm undrafted/out-mtp-*
show inspect -m undrafted | tail -n 4
