# Sourced by the other scripts: the project's own C files, tracked or new.
project_sources() {
    git ls-files --cached --others --exclude-standard -- 'include/*.h' 'src/*.[ch]' 'tools/*.[ch]' 'bench/*.[ch]' 'tests/*.[ch]' 'examples/*.[ch]' |
        while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}
