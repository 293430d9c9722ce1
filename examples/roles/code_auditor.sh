#!/bin/sh
# A council role in shell: reads its brief from standard input, answers with a RoleVerdict on standard output.
# This one approves nothing that comes without a test: it looks for added lines in files named like tests.
#
# In council/roles.yaml, at the role it answers for:
#     command: {program: roles/code_auditor.sh, args: [], time_limit_s: 60, output_bytes_max: 65536}
set -eu

brief=$(cat)

verdict=NEEDS_MORE_INFO
answer="No file of tests is among the changes."
pass=false
action='"File the change together with its tests."'
if printf '%s\n' "$brief" | grep -q '^+++ .*test'; then
  verdict=APPROVE
  answer="The change adds to files of tests."
  pass=true
  action=
fi

cat <<EOF
{
  "role": "Code Auditor",
  "verdict": "$verdict",
  "confidence_score": 0.7,
  "checklist_results": [
    {"question": "Does the change come with tests?", "answer": "$answer", "pass": $pass}
  ],
  "concerns": [],
  "required_actions": [$action]
}
EOF
