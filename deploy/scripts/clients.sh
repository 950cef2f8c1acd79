#!/usr/bin/env bash
# Proves that clients that are not ours work: starts a suite of its own on free ports and a data directory that is thrown away,
# runs the Python example against it, and replays the curl transcripts of the documentation.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin=${GANTRY_BIN:-bin}
fail() { printf 'clients: %s\n' "$1" >&2; exit 1; }
required() { [[ ",${GANTRY_TEST_REQUIRE:-}," == *",$1,"* || ",${GANTRY_TEST_REQUIRE:-}," == *,all,* ]]; }
[[ -x "$bin/gantry" ]] || fail "$bin/gantry is not built: make build"

work=$(mktemp -d)
suite=
clean() {
	[[ -z "$suite" ]] || { kill -TERM "$suite" 2>/dev/null && wait "$suite" || true; }
	# Sandboxes outlive their service; these have nothing left to live for.
	local file pid
	while IFS= read -r file; do
		pid=$(cat "$file")
		[[ "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)" != "gantry-sandbox-supervisor $work/"* ]] || kill -KILL "$pid" || true
	done < <(find "$work/data/sandbox" -name supervisor.pid 2>/dev/null)
	rm -rf "$work"
}
trap clean EXIT
"$bin/gantry" up --data "$work/data" --address 127.0.0.1:0 --http-address 127.0.0.1:0 --workspaces examples --model offline \
	>"$work/out" 2>"$work/log" &
suite=$!
for ((i = 0; i < 300; i++)); do
	! grep -q 'Gantry serves' "$work/out" || break
	kill -0 "$suite" 2>/dev/null || { cat "$work/log" >&2; fail "the suite ended"; }
	sleep 0.1
done
grpc=$(sed -n 's/.*gRPC on \([^ ]*\) .*/\1/p' "$work/out" | head -n 1)
http=$(sed -n 's#.*http://\([^ ]*\) .*#\1#p' "$work/out" | head -n 1)
[[ -n "$grpc" && -n "$http" ]] || { cat "$work/log" >&2; fail "the suite does not say where it serves"; }
status=0

# Debian's gRPC belongs to Debian's Python, which need not be the first one on the path.
python=
for p in /usr/bin/python3 python3; do
	! "$p" -c 'import grpc, google.protobuf' 2>/dev/null || { python=$p; break; }
done
if [[ -n "$python" ]] && command -v protoc grpc_python_plugin >/dev/null; then
	examples/python/stubs.sh
	said=$("$python" examples/python/call.py --address "$grpc" --agent reviewer --user 'Ünal/1' --session py --timeout 120 \
		'Write "from Python" to py.txt. Then read py.txt.') || status=1
	grep -q -- '-> write_file' <<<"$said" && grep -q '<- read_file: .*from Python' <<<"$said" && grep -q '^completed: run .* of session py' <<<"$said" || status=1
	((status == 0)) || printf 'clients: the Python example printed:\n%s\n' "$said" >&2
	# What it did must be there for others, and an error must say what is wrong.
	"$bin/gantry" fs cat --addr "$grpc" --agent reviewer --user 'Ünal/1' py.txt 2>&1 | grep -q 'from Python' ||
		{ echo "clients: the file that Python had written is not there" >&2; status=1; }
	wrong=$("$python" examples/python/call.py --address "$grpc" --agent no-such-agent --user ana hi 2>&1) && status=1
	grep -q 'AGENT_NOT_FOUND' <<<"$wrong" || { printf 'clients: an unknown agent gives: %s\n' "$wrong" >&2; status=1; }
	((status == 0)) && echo "clients: the Python example works"
elif required python; then
	fail "Python's gRPC is required and missing (apt-get install protobuf-compiler libprotobuf-dev protobuf-compiler-grpc python3-grpcio python3-protobuf)"
else
	echo "clients: skipped the Python example: protoc, grpc_python_plugin or python3-grpcio is missing"
fi

deploy/scripts/curl-readme.sh "$http" || status=1
exit $status
