#!/usr/bin/env bash
# Stops the services that deploy/scripts/up.sh started, in reverse: each is asked to end and has 20 seconds for it.
# Sandboxes live on and are adopted by the next start, as they are when a service is replaced by a newer one;
# SandboxService.Destroy ends one.
#
#   GANTRY_UP_DATA=dir    the same as for up.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

data=${GANTRY_UP_DATA:-.gantry}
fail() { printf 'down: %s\n' "$1" >&2; exit 1; }
if [[ ! -d "$data/run" ]]; then
	echo "down: nothing runs"
	exit 0
fi
data=$(cd "$data" && pwd)
exec 9>"$data/run/lock"
flock -n 9 || fail "another up or down works on $data"

status=0
stopped=0
for s in gateway orchestrator task sandbox memory workspace; do
	pid=$(cat "$data/run/$s.pid" 2>/dev/null) || continue
	# A pid is used again after a restart of the machine: only a program of that name is ours.
	if [[ "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)" == *"/$s "* ]]; then
		kill -TERM "$pid"
		for ((i = 0; i < 200; i++)); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		if ((i >= 200)); then
			printf 'down: %s did not end within 20 s and was killed; %s says what it did\n' "$s" "$data/log/$s.log" >&2
			kill -KILL "$pid" 2>/dev/null || true
			status=1
		fi
		printf 'down: %s stopped\n' "$s"
		((++stopped))
	fi
	rm -f "$data/run/$s.pid"
done
((stopped)) || echo "down: nothing ran"
alive=0
while IFS= read -r file; do
	[[ "$(tr '\0' ' ' <"/proc/$(cat "$file")/cmdline" 2>/dev/null)" != gantry-sandbox-supervisor* ]] || ((++alive))
done < <(find "$data/sandbox" -name supervisor.pid 2>/dev/null)
((alive == 0)) || printf 'down: live sandboxes: %d; the next start adopts them\n' "$alive"
exit $status
