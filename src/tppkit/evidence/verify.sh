#!/usr/bin/env bash
# Verify this exhibit with bash and openssl alone: bash verify.sh
# Exit: 0 everything holds, 1 something does not, 3 something could not be checked. Nothing is read but the files beside it.
# Every value comes from record.cbor, whose hash is the leaf in the log, or from a file that it names.
set -u
export LC_ALL=C
[[ $0 == */* ]] && { cd -- "${0%/*}" || exit 1; }
failed=0 open=0
holds() { printf 'holds        %s\n' "$1"; }
fails() { printf 'FAILS        %s\n' "$1"; failed=1; }
skips() { printf 'NOT CHECKED  %s\n' "$1"; open=1; }
stop() { fails "$1"; exit 1; }
hex() { od -An -v -tx1 -- "$1" | tr -d ' \n'; }
raw() { local i out=''; for ((i = 0; i < ${#1}; i += 2)); do out+="\\x${1:i:2}"; done; printf '%b' "$out"; }
sha256() { local digest; read -r digest _ < <(openssl dgst -sha256 -r "$@"); printf '%s' "$digest"; }
command -v openssl > /dev/null || stop 'openssl is not installed'
work=$(mktemp -d) || exit 1
exec 2> /dev/null # what cannot be read does not hold
trap 'rm -rf -- "$work"' EXIT
export SSL_CERT_DIR=$work/none SSL_CERT_FILE=$work/none # no authority of this machine counts

# 1. The files are those of the list.
listed=''
while read -r digest name; do
    [[ $name =~ ^([a-z]+/)?[A-Za-z0-9.-]+$ && -f $name && $(sha256 "$name") == "$digest" ]] || fails "the sum of ${name//[^a-zA-Z0-9.\/-]/?}"
    listed+=" $name "
done < SHA256SUMS
for name in * */*; do [[ -d $name || $name == SHA256SUMS || $name == '*/*' || $listed == *" $name "* ]] || fails 'a file is not in the list'; done
((failed)) || holds 'the sums of the files'

# 2. The columns of the record. A value is in hexadecimal; values of a list are separated by spaces.
cbor=$(hex record.cbor) position=0 names=' '
[[ -n $cbor ]] || stop 'the record is empty'
start() {
    local size
    ((position < ${#cbor})) || stop 'the record is cut off'
    number=$((16#${cbor:position:2})) position=$((position + 2))
    major=$((number >> 5)) number=$((number & 31))
    case $number in 24) size=2 ;; 25) size=4 ;; 26) size=8 ;; 27) size=16 ;; *) return ;; esac
    ((position + size <= ${#cbor})) || stop 'the record is cut off'
    number=$((16#${cbor:position:size})) position=$((position + size))
    ((number >= 0)) || stop 'the record has a number that is too large'
}
item() {
    local left list=''
    start
    case $major in
        0) value=$number ;;
        1 | 7) value='' ;;
        2 | 3)
            ((number <= (${#cbor} - position) / 2)) || stop 'the record is cut off'
            value=${cbor:position:2 * number} position=$((position + 2 * number)) ;;
        4 | 5)
            for ((left = number * (major - 3); left > 0; left--)); do item; list+="${list:+ }$value"; done
            value=$list ;;
        *) stop 'the record is malformed' ;;
    esac
}
start
((major == 5)) || stop 'the record is not a map'
for ((columns = number; columns > 0; columns--)); do
    item
    name=$value
    [[ $names != *" $name "* ]] || stop 'a column appears twice'
    names+="$name "
    item
    case $(raw "$name") in
        seq | received_at | kind | stream_id | previous | signing_input_sha256 | signature_raw | body_sha256 | body_len | seal_cert | qwac_cert | chain | answers)
            printf -v "column_$(raw "$name")" '%s' "$value" ;;
    esac
done
((position == ${#cbor})) || stop 'something follows the record'
[[ ${column_received_at-} =~ ^(0|[1-9][0-9]{0,17})$ && ${column_seq-} =~ ^(0|[1-9][0-9]{0,17})$ ]] || stop 'the record has no place or time'
at=$((column_received_at / 1000000))

# 3. The record names the signing string, the signature, the body and the certificates.
named() { # what, the column in hexadecimal, the file
    [[ -f $3 && $(sha256 "$3") == "$(raw "$2")" ]] && holds "the record names $1" || fails "the record names $1"
}
named 'the signing string' "${column_signing_input_sha256-}" signing-string.txt
named 'the certificate of the seal' "${column_seal_cert-}" seal.der
parties=(seal qwac)
[[ ${column_kind-} == 4 ]] && parties=(seal) # the answer of a bank
[[ ${column_kind-} == 4 ]] || named 'the certificate of the connection' "${column_qwac_cert-}" qwac.der
encoded=$(openssl base64 -A -in signature.bin) url=$(openssl base64 -A -in signature.bin | tr -d = | tr +/ -_)
header=$(raw "${column_signature_raw-}" | tr -d '\000')
[[ -s signature.bin && ($header == *"$encoded"* || $header == *"$url"*) ]] && holds 'the record names the signature' || fails 'the record names the signature'
if [[ -f body.bin ]]; then
    named 'the body' "${column_body_sha256-}" body.bin
    digest='' wanted=()
    while IFS= read -r line || [[ -n $line ]]; do
        [[ ${column_kind-} == 5 && -z ${later-} ]] && line=${line#*.} # of a JSON Web Signature, behind its header
        later=yes
        [[ $line =~ ^\"?([a-z0-9-]+-)?digest\"?:\  ]] && digest+=$line
    done < signing-string.txt
    for algorithm in sha256 sha512; do
        wanted+=("$(openssl dgst -$algorithm -binary body.bin | openssl base64 -A)")
        [[ -s body.bin ]] || wanted+=("$(printf '{}' | openssl dgst -$algorithm -binary | openssl base64 -A)") # some dialects
    done
    result=fails
    if [[ ${column_kind-} == 5 && -s body.bin ]]; then # a JSON Web Signature over the body, encoded or not
        IFS= read -r -d . protected < signing-string.txt
        tail -c +$((${#protected} + 2)) signing-string.txt > "$work/payload"
        openssl base64 -A -in body.bin | tr -d '=\n' | tr +/ -_ > "$work/encoded"
        cmp -s "$work/payload" body.bin || cmp -s "$work/payload" "$work/encoded" && result=holds
    fi
    for one in "${wanted[@]}"; do [[ $digest == *"$one"* ]] && result=holds; done
    [[ -z $digest && ! -s body.bin ]] && result=holds
    $result 'the signing string has the digest of the body, or the body'
else
    skips 'the body is not in this exhibit: it was redacted, and its digest cannot be computed'
fi

# 4. The signature is of the signing string, by the key of the seal.
pem() { openssl x509 -inform DER -in "$1" -outform PEM; }
for name in "${parties[@]}" "${parties[@]/%/-anchor}"; do pem "$name.der" > "$work/$name.pem"; done
openssl x509 -in "$work/seal.pem" -noout -pubkey > "$work/key.pem"
integer() {
    local digits=$1
    while [[ $digits == 00??* ]]; do digits=${digits:2}; done
    [[ $digits == [89a-f]* ]] && digits=00$digits
    printf '02%02x%s' $((${#digits} / 2)) "$digits"
}
bare=$(hex signature.bin) half=$((${#bare} / 2))
both=$(integer "${bare:0:half}")$(integer "${bare:half}")
cp signature.bin "$work/signature"
long=$((${#both} / 2 > 127 ? 81 : 0)) # the length of P-521's has two bytes
((half == 64 || half == 96 || half == 132)) && raw "30${long#0}$(printf '%02x' $((${#both} / 2)))$both" > "$work/bare" # r and s without ASN.1
method=''
for signature in "$work/signature" "$work/bare"; do
    for algorithm in sha256 sha384 sha512; do
        for form in '' -sigopt\ rsa_padding_mode:pss; do # of RSA: PKCS#1 v1.5, PSS
            [[ -z $method ]] && openssl dgst -$algorithm $form -verify "$work/key.pem" -signature "$signature" signing-string.txt > /dev/null && method=$algorithm
        done
    done
done
[[ -z $method ]] && openssl pkeyutl -verify -pubin -inkey "$work/key.pem" -rawin -in signing-string.txt -sigfile signature.bin > /dev/null && method=Ed25519
[[ -n $method ]] && holds 'the signature is of the signing string, by the key of the seal' || fails 'the signature is of the signing string, by the key of the seal'

# 5. The certificates lead to their authorities at the time of receipt, and name the same organisation.
for file in seal-anchor.der qwac-anchor.der authorities/*.der; do pem "$file"; done > "$work/authorities.pem"
for name in "${parties[@]}"; do
    claim="the certificate ($name) leads to its authority at the time of receipt"
    [[ $(sha256 $name-anchor.der) != "$(sha256 $name.der)" ]] \
        && openssl verify -attime "$at" -partial_chain -CAfile "$work/$name-anchor.pem" -untrusted "$work/authorities.pem" "$work/$name.pem" > /dev/null \
        && holds "$claim" || fails "$claim"
done
organisation() {
    local line found=''
    while IFS= read -r line; do [[ $line == '    organizationIdentifier = '* ]] && found+="$line"; done \
        < <(openssl x509 -in "$work/$1.pem" -noout -subject -nameopt multiline,-align)
    printf '%s' "$found"
}
if ((${#parties[@]} == 2)); then
    [[ -n $(organisation seal) && $(organisation seal) == "$(organisation qwac)" ]] && holds 'both certificates name one organisation' || fails 'both certificates name one organisation'
else # the role PSP_AS of ETSI TS 119 495: 0.4.0.19495.1.1
    [[ $(hex seal.der) == *060704008198270101* ]] && holds 'the certificate of the seal is one of a bank' || fails 'the certificate of the seal is one of a bank'
fi

# 6. The answers that the record names prove that neither certificate was revoked at the time of receipt.
lines() { local line; while IFS= read -r line; do [[ $line == $1* ]] && printf '%s\n' "${line#$1}"; done; }
within() { # whether the times of an OCSP answer, as openssl prints them, include the time of receipt
    local from to
    from=$(date -u -d "$(lines $'\tThis Update: ' <<< "$1")" +%s) && to=$(lines $'\tNext Update: ' <<< "$1")
    [[ -n $from && $from -le $((at + 300)) && (-z $to || $(date -u -d "$to" +%s) -ge $((at - 300))) ]]
}
: > "$work/crls.pem"
responses=()
for one in ${column_answers-}; do
    name=$(raw "$one")
    [[ $name =~ ^[0-9a-f]{64}$ && $(sha256 "answers/$name.der") == "$name" ]] || { fails 'an answer that the record names is in the bundle'; continue; }
    openssl crl -inform DER -in "answers/$name.der" >> "$work/crls.pem" || responses+=("answers/$name.der")
done
for name in "${parties[@]}"; do
    [[ -n ${column_answers-} ]] || { printf 'note         no answers about revocation were kept (%s)\n' "$name"; continue; }
    state='' chain=(-attime "$at" -partial_chain -CAfile "$work/$name-anchor.pem")
    if [[ -s $work/crls.pem ]]; then
        text=$(openssl verify "${chain[@]}" -untrusted "$work/authorities.pem" -crl_check -CRLfile "$work/crls.pem" "$work/$name.pem" 2>&1) && state=good
        [[ $text == *'certificate revoked'* ]] && state=revoked
    fi
    for response in ${responses[@]+"${responses[@]}"}; do
        for issuer in seal-anchor.der qwac-anchor.der authorities/*.der; do
            pem "$issuer" > "$work/issuer.pem"
            text=$(openssl ocsp -respin "$response" -issuer "$work/issuer.pem" -cert "$work/$name.pem" "${chain[@]}" -verify_other "$work/authorities.pem" -no_nonce -validity_period 3153600000 2> "$work/errors")
            [[ $(< "$work/errors") == *'Response verify OK'* ]] || continue
            [[ $text == *"$name.pem: revoked"* ]] && state=revoked
            [[ -z $state && $text == *"$name.pem: good"* ]] && within "$text" && state=good
        done
    done
    case $state in
        good) holds "the certificate ($name) was not revoked, by the answers that the record names" ;;
        revoked) fails "the certificate ($name) was not revoked, by the answers that the record names" ;;
        *) skips "revocation of the certificate ($name): no answer here proves it" ;;
    esac
done

# 7. The leaf of the record is in the log, at its place.
leaf=$( { printf '\000'; cat record.cbor; } | sha256) size='' root=''
{ IFS= read -r origin; IFS= read -r size; IFS= read -r root; } < head.txt
[[ $origin == "tppkit.evidence/$(raw "${column_stream_id-}")" && $size =~ ^[1-9][0-9]{0,17}$ ]] || stop 'the head is of another log, or malformed'
node=$leaf index=$column_seq last=$((size - 1)) result=holds
((index <= last)) || result=fails
proof=()
while IFS= read -r line; do proof+=("$line"); done < path.txt
step=0
while ((last > 0)); do
    if ((index % 2 || index < last)); then
        sibling=${proof[step]-}
        [[ $sibling =~ ^[0-9a-f]{64}$ ]] || { result=fails; break; }
        ((index % 2)) && both=$sibling$node || both=$node$sibling
        node=$(raw "01$both" | sha256) step=$((step + 1))
    fi
    index=$((index / 2)) last=$((last / 2))
done
[[ $step == "${#proof[@]}" && $(raw "$node" | openssl base64 -A) == "$root" ]] || result=fails
$result "the record is number $column_seq of the $size of the head"

# 8. The head was stamped: the record existed then.
if [[ -f head.tsr ]]; then
    stamped=$(openssl ts -reply -in head.tsr -text | lines 'Time stamp: ')
    when=$(date -u -d "$stamped" +%s) || when=$at
    if [[ ! -f stamp-anchor.der ]]; then
        skips 'the time stamp: no authority for it is in this exhibit'
    else
        pem stamp-anchor.der > "$work/stamp-anchor.pem"
        openssl ts -verify -data head.txt -in head.tsr -CAfile "$work/stamp-anchor.pem" -untrusted "$work/authorities.pem" -attime "$when" > /dev/null \
            && holds "the head was stamped: $stamped" || fails 'the time stamp is over the head'
    fi
fi

signer=$(organisation seal)
printf 'seal of      %s\n' "${signer#*= }"
printf 'anchor       %s (seal)\n' "$(sha256 seal-anchor.der)"
((${#parties[@]} == 2)) && printf 'anchor       %s (connection)\n' "$(sha256 qwac-anchor.der)"
[[ -f stamp-anchor.der ]] && printf 'anchor       %s (time stamp)\n' "$(sha256 stamp-anchor.der)"
printf 'head         %s records, root %s\n' "$size" "${root//[^A-Za-z0-9+\/=]/?}"
printf 'Compare the anchors with the authorities that you trust, and the head with one that another party keeps.\n'
((failed == 0)) || { printf 'This exhibit does not hold.\n'; exit 1; }
((open == 0)) || { printf 'Everything holds except what was not checked.\n'; exit 3; }
printf 'OK\n'
