#!/usr/bin/env bash
# Prints a bearer token for a deployment with auth-mode jwt and one static key (EdDSA), made with openssl alone. The key pair is
# made on first use: the services get client.pub.pem, the private key stays with whoever may make tokens.
#
#   deploy/scripts/token.sh --user ana [--tenant acme] [--agents a,b] [--verbs v,w] [--hours 12]
#   deploy/scripts/token.sh --service --verbs thread.write
#   deploy/scripts/token.sh --keys-only        only makes the keys, and task.env for docker-compose.yml
#
# --service is for a service that acts for no user of its own. Without --agents and --verbs a token allows all of them.
# GANTRY_KEYS names the folder of the keys (default deploy/keys, which is not committed).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

keys=${GANTRY_KEYS:-deploy/keys}
user='' tenant='' agents='*' verbs='*' hours=12 service=false only=false
fail() { printf 'token: %s\n' "$1" >&2; exit 2; }
while (($#)); do
	case "$1" in
	--service) service=true ;;
	--keys-only) only=true ;;
	--user | --tenant | --agents | --verbs | --hours)
		(($# > 1)) || fail "$1 needs a value"
		declare "${1#--}=$2"
		shift
		;;
	*) fail "what is $1? The head of this file says what there is" ;;
	esac
	shift
done
[[ "$hours" =~ ^[0-9]+$ ]] || fail "--hours $hours is no number"
[[ "$user$tenant$agents$verbs" != *['"\']* ]] || fail "quotes and backslashes are not possible here"

mkdir -p "$keys"
if [[ ! -e "$keys/client.pem" ]]; then
	(umask 077 && openssl genpkey -algorithm ed25519 -out "$keys/client.pem.new")
	openssl pkey -in "$keys/client.pem.new" -pubout -out "$keys/client.pub.pem"
	mv "$keys/client.pem.new" "$keys/client.pem"
	printf 'token: made the key pair %s/client.pem and client.pub.pem\n' "$keys" >&2
fi
if $only; then
	# What the task service does by itself is to post results into threads.
	token=$("$here/token.sh" --service --verbs thread.write --hours 87600)
	(umask 077 && printf 'GANTRY_THREADS_TOKEN=%s\n' "$token" >"$keys/task.env")
	exit 0
fi
$service || [[ -n "$user" ]] || fail "name a --user, or say --service"

base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
list() { printf '["%s"]' "${1//,/\",\"}"; }
now=$(date +%s)
claims=$(printf '{"iat":%d,"exp":%d,"tenant":"%s","user":"%s","agents":%s,"verbs":%s,"scopes":["session","user","agent"],"service":%s}' \
	"$now" "$((now + hours * 3600))" "$tenant" "$user" "$(list "$agents")" "$(list "$verbs")" "$service")
head=$(printf '{"alg":"EdDSA","typ":"JWT"}' | base64url)
body=$(printf '%s' "$claims" | base64url)
input=$(mktemp)
trap 'rm -f "$input"' EXIT
printf '%s.%s' "$head" "$body" >"$input" # openssl signs Ed25519 from files only
signature=$(openssl pkeyutl -sign -inkey "$keys/client.pem" -rawin -in "$input" | base64url)
printf '%s.%s.%s\n' "$head" "$body" "$signature"
