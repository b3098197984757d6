#!/usr/bin/env bash
# Audit an archive, and fill a folder with what an auditor files.
#   bash audit.sh ARCHIVE TRUST OUT [HEAD]
# TRUST is a file or folder with the authorities that you trust, OUT a new folder, HEAD the file of a log head from before.
# The exit code is that of `tppkit audit verify`; 2 also if OUT exists or an argument is missing.
set -uo pipefail
umask 077

if [ $# -lt 3 ] || [ $# -gt 4 ]; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 2
fi
archive=$1 trust=$2 out=$3
if grep -Rqs -- '-----BEGIN .*PRIVATE KEY' "$trust"; then
  echo "$trust contains a private key, and would be filed: give the certificates only" >&2
  exit 2
fi
if [ $# -eq 4 ] && [ ! -r "$4" ]; then
  echo "$4 cannot be read" >&2
  exit 2
fi
if [ ! -d "$archive" ]; then
  echo "$archive is not a folder" >&2
  exit 2
fi
mkdir -- "$out" || exit 2

# What the verdict rests on is copied first, and used from there.
if ! cp -rL -- "$trust" "$out/trust"; then
  rm -rf -- "$out"
  exit 7
fi
options=(--trust "$out/trust" --report "$out/audit.html" --failures all)
if [ $# -eq 4 ]; then
  cp -- "$4" "$out/head.txt" || exit 2
  options+=(--expect-head "$out/head.txt")
fi

# The log head before the audit: records that arrive later are neither audited nor promised.
tppkit audit log head -- "$archive" >"$out/head-of-today.txt" || rm -f -- "$out/head-of-today.txt"
tppkit audit verify "${options[@]}" -- "$archive" | tee "$out/summary.txt"
code=${PIPESTATUS[0]}
case $code in
  0) meaning="all records passed" ;;
  1) meaning="at least one record is disproved: the report names each with its reason" ;;
  3) meaning="not everything is proven: the report names what is missing or damaged" ;;
  4) meaning="the archive is inconsistent: something is missing, moved or changed" ;;
  5) meaning="part of the archive cannot be read" ;;
  6) meaning="interrupted: run it again with a new folder" ;;
  7) meaning="the trust material is missing or cannot be read" ;;
  *) meaning="the audit was not carried out" ;;
esac

set -e # a folder that is not complete must not look as if it were
tppkit --version >"$out/version.txt"
printf 'exit %s: %s\n' "$code" "$meaning" | tee "$out/verdict.txt"
(cd "$out" && find . -type f ! -name SHA256SUMS -print0 | sort -z | xargs -0 sha256sum >SHA256SUMS)

echo "File the folder $out:"
(cd "$out" && find . -maxdepth 1 -mindepth 1 | sort | sed 's|^\./|  |')
exit "$code"
