#!/usr/bin/env bash
# Starts the six services as processes in the background, on the loopback, each with a data directory of its own. What runs
# already stays as it is, so it can be called again. deploy/scripts/down.sh stops them.
#
#   GANTRY_UP_DATA=dir    where everything is kept; default .gantry: run/ has the pid files, log/ the logs
#   GANTRY_UP_PORT=7400   first of seven ports in a row: HTTP, orchestrator, workspace, memory, sandbox, task, gateway's health
#   GANTRY_WORKSPACES     folder with one agent's workspace a subfolder; default examples
#   GANTRY_MODEL          default model of runs; default: the orchestrator's choice, which its log states
set -euo pipefail
cd "$(dirname "$0")/../.."

data=${GANTRY_UP_DATA:-.gantry}
first=${GANTRY_UP_PORT:-7400}
bin=${GANTRY_BIN:-bin}
workspaces=${GANTRY_WORKSPACES:-examples}
names=(workspace memory sandbox task orchestrator gateway)
fail() { printf 'up: %s\n' "$1" >&2; exit 1; }

[[ "$first" =~ ^[0-9]+$ ]] && ((first > 0 && first < 65529)) || fail "GANTRY_UP_PORT=$first is no port"
mkdir -p "$data/run" "$data/log" "$data/keys" 2>/dev/null || fail "the data directory $data can't be written; GANTRY_UP_DATA names another"
data=$(cd "$data" && pwd)
[[ -w "$data/run" ]] || fail "the data directory $data can't be written; GANTRY_UP_DATA names another"
exec 9>"$data/run/lock"
flock -n 9 || fail "another up or down works on $data"

at() { printf '127.0.0.1:%d' "$((first + $1))"; }
http=$(at 0)
declare -A address=([orchestrator]=$(at 1) [workspace]=$(at 2) [memory]=$(at 3) [sandbox]=$(at 4) [task]=$(at 5) [gateway]=$(at 6))

runs() { # NAME: the pid file's process is there, and is that program
	local pid
	pid=$(cat "$data/run/$1.pid" 2>/dev/null) && [[ -n "$pid" ]] && kill -0 "$pid" 2>/dev/null &&
		[[ "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)" == *"/$1 "* ]]
}
busy() { (exec 3<>"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; }

# What can be known is checked before anything is started.
missing=()
for s in "${names[@]}"; do
	[[ -x "$bin/$s" ]] || fail "$bin/$s is not built: make build"
	runs "$s" || missing+=("$s")
done
for s in "${missing[@]}"; do
	! busy "${address[$s]}" || fail "the port of ${address[$s]} ($s) is used by another program; stop that, or choose others with GANTRY_UP_PORT"
done
[[ " ${missing[*]} " != *" gateway "* ]] || ! busy "$http" ||
	fail "the port of $http (HTTP) is used by another program; stop that, or choose others with GANTRY_UP_PORT"

args() {
	printf '%s\n' "--address=${address[$1]}" "--auth-capability-keys=$data/keys/capability-keys.json"
	case "$1" in
	orchestrator)
		printf '%s\n' --replica=orchestrator "--workspace-address=${address[workspace]}" "--memory-address=${address[memory]}" \
			"--sandbox-address=${address[sandbox]}" "--tasks-address=${address[task]}" \
			"--capability-key=$data/orchestrator/capability.pem" "--capability-key-set=$data/keys/capability-keys.json"
		;;
	workspace) printf '%s\n' "--data=$data/workspace/runtime" "--workspace=$data/workspace/default" "--workspaces=$workspaces" ;;
	memory) printf '%s\n' "--filesystem=${address[workspace]}" "--index-dir=$data/memory/index" ;;
	sandbox) printf '%s\n' "--dir=$data/sandbox" "--workspace-address=${address[workspace]}" ;;
	task) printf '%s\n' "--database=$data/task/tasks.db" "--threads=${address[workspace]}" ;;
	gateway)
		printf '%s\n' "--http-address=$http" "--orchestrator-address=${address[orchestrator]}" "--workspace-address=${address[workspace]}" \
			"--memory-address=${address[memory]}" "--sandbox-address=${address[sandbox]}" "--tasks-address=${address[task]}"
		;;
	esac
}
for s in "${missing[@]}"; do
	mkdir -p "$data/$s"
	mapfile -t flags < <(args "$s")
	printf -- '--- %s\n' "$(date -Is)" >>"$data/log/$s.log"
	setsid "$bin/$s" "${flags[@]}" >>"$data/log/$s.log" 2>&1 </dev/null 9>&- &
	echo $! >"$data/run/$s.pid"
done

for s in "${names[@]}"; do
	for ((i = 0; i < 300; i++)); do
		! "$bin/$s" --health --address="${address[$s]}" 2>/dev/null || break
		runs "$s" || i=300
		sleep 0.1
	done
	if ((i >= 300)); then
		tail -n 3 "$data/log/$s.log" >&2
		fail "$s does not serve; $data/log/$s.log says why, deploy/scripts/down.sh stops the others"
	fi
	state=started
	[[ " ${missing[*]} " == *" $s "* ]] || state="runs already"
	printf '%-13s %-16s %s (pid %s)\n' "$s" "${address[$s]}" "$state" "$(cat "$data/run/$s.pid")"
done
printf '%-13s http://%s\n\n' HTTP "$http"
cat <<END
# For the command line:
export GANTRY_ADDR=${address[orchestrator]} GANTRY_WORKSPACE_ADDR=${address[workspace]} GANTRY_MEMORY_ADDR=${address[memory]}
export GANTRY_SANDBOX_ADDR=${address[sandbox]} GANTRY_TASK_ADDR=${address[task]}
END
