#!/bin/sh
# Sends a notice to an ntfy topic: ntfy.sh https://ntfy.example.org/desk-7f3a
# In rules/notify.yaml: network: [443]
set -eu
read -r notice
# A notice is one line of JSON, and its texts hold no line breaks. This takes the text of one member.
of() { printf '%s\n' "$notice" | sed -n "s/.*[{,]\"$1\":\"\(\([^\"\\\\]\|\\\\.\)*\)\".*/\1/p" | sed 's/\\\(.\)/\1/g'; }
case $(of level) in alarm) priority=5 ;; act) priority=4 ;; *) priority=2 ;; esac
exec curl -fsS --max-time 15 -H "Title: $(of title)" -H "Priority: $priority" --data-raw "$(of text)
$(of remedy)" "$1"
