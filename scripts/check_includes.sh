#!/usr/bin/env bash
# Refuses an #include that points up: each folder may use only the folders listed for it in docs/design.md.
set -eu
cd "$(dirname "$0")/.."
. scripts/sources.sh

project_sources | grep -E '^(src|tools|bench|include)/' | xargs awk '
BEGIN {
    uses["base"] = ""
    uses["os"] = "base"
    uses["quant"] = "base os"
    uses["kernels"] = "base os quant"
    uses["device"] = "base os quant kernels"
    uses["container"] = "base os quant"
    uses["experts"] = "base os quant kernels device container"
    uses["model"] = uses["experts"] " experts"
    uses["text"] = "base"
    uses["engine"] = uses["model"] " model text"
    uses["tools"] = "base bench"
    uses["bench"] = uses["engine"] " engine"
    uses["include"] = ""
}
function folder(path, parts) {
    split(path, parts, "/")
    return parts[1] == "src" ? parts[2] : parts[1]
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    from = folder(FILENAME)
    if (quoted[2] !~ /\//) next # beside the file
    split(quoted[2], parts, "/")
    to = parts[1]
    if (to == "sluice" || to == from) next
    if (!(from in uses)) { printf "%s: folder %s is not in scripts/check_includes.sh\n", FILENAME, from; bad = 1; next }
    if (index(" " uses[from] " ", " " to " ") == 0) {
        printf "%s:%d: %s may not include %s\n", FILENAME, FNR, from, quoted[2]
        bad = 1
    }
}
END { exit bad }
'
