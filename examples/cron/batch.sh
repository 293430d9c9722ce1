#!/bin/sh
# A batch for cron: sign what waits, submit it, have the gate decide, sort what came of it. Safe to be run at any time, twice at
# once, and again after a crash.
#
#   batch.sh HOME KEYFILE JOBS
#
# JOBS/todo/<id>.<action>.json is a payload, such as todo/rebalance-0412.order.submit.json; whoever makes jobs writes them
# under a name ending in .tmp and renames them. The id is the request's: the gate decides it once, and gives whoever sends it
# again the same answer. What came of a job is moved to JOBS/done, JOBS/refused or JOBS/held with its answer beside it as
# <id>.answer.json. The signed request stays in JOBS/signed until then, so that a batch which was killed sends the same bytes.
#
# Exit codes: 0 all done, or nothing to do; 1 something was refused (JOBS/refused); 3 something is held for a person; 75 another batch
# or a request over its rate: the next run goes on with it; 5 and 6 the gate's own, ledger or disk: somebody must look; 2 the
# batch is set up wrongly. cron mails what is on standard error; crontab beside this has a line.
set -eu

[ $# -eq 3 ] || { echo "usage: batch.sh HOME KEYFILE JOBS" >&2; exit 2; }
home=$1 key=$2 jobs=$3
program=${SPOOLGATE:-spoolgate}
[ -d "$jobs/todo" ] || { echo "batch: there is no folder $jobs/todo" >&2; exit 2; }
who=$(sed -n 's/.*"principal": *"\([a-z0-9-]*\)".*/\1/p' "$key")
[ -n "$who" ] || { echo "batch: $key names no principal" >&2; exit 2; }
mkdir -p "$jobs/signed" "$jobs/done" "$jobs/refused" "$jobs/held"

# One batch at a time. The lock is the open file's, so a batch that was killed leaves none behind.
exec 9> "$jobs/.lock"
flock -n 9 || { echo "batch: another one is running" >&2; exit 75; }

worst=0
# A later job that went well must not hide an earlier one that did not; 75 is only said where nothing is worse.
note() { case $worst in 0 | 75) worst=$1 ;; *) [ "$1" = 75 ] || [ "$worst" -le "$1" ] || worst=$1 ;; esac; }

for job in "$jobs"/todo/*.json; do
    [ -e "$job" ] || continue
    name=$(basename "$job" .json)
    id=${name%%.*} action=${name#*.}
    signed=$jobs/signed/$id.json
    if [ ! -e "$signed" ]; then
        # The answer of an id is the answer to what was first sent under it: this would be taken for its own.
        if [ -e "$home/spool/out/$id.json" ]; then
            echo "batch: the id $id was used before; name the job anew" >&2
            mv "$job" "$jobs/refused/"
            note 1
            continue
        fi
        code=0
        "$program" --home "$home" sign "$job" --as "$who" --action "$action" --key "$key" --id "$id" > "$signed.tmp" || code=$?
        case $code in
        0) mv "$signed.tmp" "$signed" ;;
        2)
            rm -f "$signed.tmp"
            mv "$job" "$jobs/refused/"
            note 1
            continue
            ;;
        *) exit "$code" ;;
        esac
    fi
    # Again after a crash: the answer is the same then, and nothing is done twice.
    "$program" --home "$home" submit "$signed" > /dev/null || exit $?
done

code=0
"$program" --home "$home" run --until-idle > /dev/null || code=$?
case $code in
0) ;;
# A watcher holds the home and decides what was submitted; it may take a moment.
7) sleep 1 ;;
*)
    echo "batch: the gate ended with exit code $code; jobs stay in $jobs/todo" >&2
    exit "$code"
    ;;
esac

for job in "$jobs"/todo/*.json; do
    [ -e "$job" ] || continue
    name=$(basename "$job" .json)
    id=${name%%.*}
    answer=$home/spool/out/$id.json
    [ -s "$answer" ] || { note 75; continue; }
    case $(sed -n 's/.*"status":"\([a-z_]*\)".*/\1/p' "$answer") in
    success) where=done ;;
    requires_approval) where=held; note 3 ;;
    # Its id is not used up: the next run sends the same bytes.
    rate_limited) note 75; continue ;;
    *) where=refused; note 1; echo "batch: $id was refused, see $jobs/refused/$id.answer.json" >&2 ;;
    esac
    cp "$answer" "$jobs/$where/$id.answer.json"
    mv "$job" "$jobs/$where/"
    rm -f "$jobs/signed/$id.json"
done
exit "$worst"
