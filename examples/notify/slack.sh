#!/bin/sh
# Posts a notice to an incoming webhook of Slack: slack.sh https://hooks.slack.com/services/T0/B0/x
# In rules/notify.yaml: network: [443]
set -eu
read -r notice
# A notice is one line of JSON. The text of a member is passed on as it is written, escapes included.
of() { printf '%s\n' "$notice" | sed -n "s/.*[{,]\"$1\":\"\(\([^\"\\\\]\|\\\\.\)*\)\".*/\1/p"; }
printf '{"text":"[%s] %s\\n%s\\n%s"}\n' "$(of level)" "$(of title)" "$(of text)" "$(of remedy)" |
    curl -fsS --max-time 15 -H 'Content-Type: application/json' --data-binary @- "$1"
