#!/bin/sh
# Mails a notice with the machine's own sendmail: mail.sh risk@example.com
# In rules/notify.yaml: the ports or sockets, and the folders, that sendmail uses here.
set -eu
read -r notice
# A notice is one line of JSON, and its texts hold no line breaks. This takes the text of one member.
of() { printf '%s\n' "$notice" | sed -n "s/.*[{,]\"$1\":\"\(\([^\"\\\\]\|\\\\.\)*\)\".*/\1/p" | sed 's/\\\(.\)/\1/g'; }
printf 'To: %s\nSubject: [%s] %s\n\n%s\n\n%s\n\n%s\n' "$1" "$(of level)" "$(of title)" "$(of text)" \
    "$(of remedy)" "$notice" | sendmail -t
