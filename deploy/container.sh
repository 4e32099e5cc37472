#!/usr/bin/env bash
# Runs tarry as containers: an active and a standby one, from the Dockerfile's target "prebuilt". Kills the active one with
# SIGKILL while messages are due, and sees the standby deliver the rest. Prints a PASS line for each thing it has seen.
#
#   deploy/container.sh          as root, on Debian or Ubuntu with Go; two minutes, ten at most
#
# No image is pulled: the target is built on "scratch" from a static binary. What is missing is installed by apt-get. A
# Docker engine that runs already is used; else one is started by hand for this run, with all it keeps in a directory
# that is removed at the end:
#
#   --bridge none, --iptables=false   The containers use the host's network, since Redis, NATS, ZooKeeper and MariaDB run as
#                                     plain processes on loopback. So the engine has no reason to touch the machine's network.
#   no --storage-driver               dockerd takes overlay2 where the file system allows it, and falls back to vfs
#                                     elsewhere, as within another container. One image of one file fits both.
#   --exec-root, --data-root, -H      of its own: it neither sees nor disturbs another engine.
set -euo pipefail

readonly messages=1000 first_due=6000 every=10 # due from 6 s on, one each 10 ms
readonly takeover=12000                        # ms; session 6 s, a tick of ZooKeeper 2 s, and room for a slow machine
readonly token=container-sh-token password=container-sh-password

if [[ -z ${CONTAINER_SH_BOUND:-} ]]; then
	CONTAINER_SH_BOUND=1 exec timeout --foreground --kill-after=60 600 "$BASH" "$0" "$@"
fi
if [[ $(id -u) -ne 0 ]]; then
	echo "container.sh: an engine is started, so it must run as root" >&2
	exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d -t tarry-container.XXXXXX)
image=tarry-container-sh:$$
a=tarry-a-$$ b=tarry-b-$$
pids=() engine="" taken=""

cleanup() {
	local code=$? pid
	trap - EXIT INT TERM
	set +e
	if [[ $code -ne 0 ]]; then
		echo "FAIL (exit code $code); the last lines of each log:" >&2
		for log in "$work"/*.log; do
			echo "--- ${log##*/}" >&2
			tail -n 20 "$log" >&2
		done
		for name in $a $b; do
			echo "--- $name" >&2
			docker logs --tail 20 "$name" 2>&1 | cut -c1-400 >&2
		done
	fi
	docker rm --force $a $b >/dev/null 2>&1
	[[ -n $engine ]] || docker rmi --force $image >/dev/null 2>&1
	for pid in "${pids[@]}" $engine; do
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	# dockerd leaves this one mounted.
	if mountpoint -q "$work/engine/exec/netns/default"; then umount "$work/engine/exec/netns/default"; fi
	rm -rf "$work"
	exit $code
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

pass() { echo "PASS $*"; }
now() { date +%s%3N; }

within() { # SECONDS WHAT COMMAND...: tries until the command succeeds
	local limit=$(($(now) + $1 * 1000)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		if [[ $(now) -ge $limit ]]; then
			echo "container.sh: not in time: $what" >&2
			return 1
		fi
		sleep 0.1
	done
}

free_port() { # sets port
	while :; do
		port=$((20000 + RANDOM % 10000))
		if [[ $taken != *" $port "* ]] && ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			taken+=" $port "
			return
		fi
	done
}

background() { # LOG COMMAND...: its pid is the last of pids
	local log=$work/$1.log
	shift
	"$@" >"$log" 2>&1 &
	pids+=($!)
}

install_missing() {
	local want=() policy=/usr/sbin/policy-rc.d
	command -v curl >/dev/null || want+=(curl)
	command -v dockerd >/dev/null || want+=(docker.io)
	if [[ ${#want[@]} -gt 0 ]]; then
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -q
		# The client came with docker.io once; later releases have it in a package of its own.
		if ! command -v docker >/dev/null && apt-cache show docker-cli >/dev/null 2>&1; then want+=(docker-cli); fi
		# Debian would start the engine as it installs it.
		if [[ ! -e $policy ]]; then
			printf '#!/bin/sh\nexit 101\n' >$policy
			chmod 755 $policy
			apt-get install -q -y --no-install-recommends "${want[@]}" || { rm -f $policy; return 1; }
			rm -f $policy
		else
			apt-get install -q -y --no-install-recommends "${want[@]}"
		fi
	fi
	"$root/deploy/lab/install.sh"
}

start_engine() {
	if docker info >/dev/null 2>&1; then
		echo "the engine that runs already is used"
		return
	fi
	mkdir "$work/engine"
	export DOCKER_HOST=unix://$work/engine/docker.sock
	dockerd --host "$DOCKER_HOST" --data-root "$work/engine/data" --exec-root "$work/engine/exec" \
		--pidfile "$work/engine/pid" --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
		>"$work/dockerd.log" 2>&1 &
	engine=$!
	within 60 "dockerd answers" docker info
}

redis_up() { redis-cli -p "$redis_port" ping | grep -q PONG; }
nats_up() { curl --fail --silent "http://127.0.0.1:$nats_http/healthz?js-enabled-only=true"; }
zookeeper_up() {
	exec 3<>"/dev/tcp/127.0.0.1/$zookeeper_port" && echo srvr >&3 && grep -q Mode <&3
}
sql() { mariadb --no-defaults --protocol tcp --host 127.0.0.1 --port "$mariadb_port" --user root --skip-column-names --batch --execute "$1"; }

start_mariadb() { # as compose.yaml has it, and with the user and database that the image makes
	mkdir "$work/mariadb-tmp"
	mariadb-install-db --no-defaults --datadir="$work/mariadb" --tmpdir="$work/mariadb-tmp" \
		--auth-root-authentication-method=normal --skip-name-resolve --skip-test-db >"$work/mariadb-install.log" 2>&1
	background mariadb mariadbd --no-defaults --user=root --datadir="$work/mariadb" --tmpdir="$work/mariadb-tmp" --socket= \
		--pid-file="$work/mariadb.pid" --bind-address=127.0.0.1 --port="$mariadb_port" --skip-name-resolve \
		--innodb-flush-log-at-trx-commit=1 --max-allowed-packet=64M --character-set-server=utf8mb4
	within 60 "mariadb answers" sql "SELECT 1"
	sql "CREATE DATABASE tarry; CREATE USER tarry@'%' IDENTIFIED BY '$password'; GRANT ALL ON tarry.* TO tarry@'%'"
}

start_servers() {
	free_port && redis_port=$port
	free_port && nats_port=$port
	free_port && nats_http=$port
	free_port && zookeeper_port=$port
	free_port && mariadb_port=$port
	mkdir "$work/redis" "$work/nats" "$work/data" "$work/datalog"
	background redis redis-server --port "$redis_port" --bind 127.0.0.1 --dir "$work/redis" \
		--appendonly yes --appendfsync everysec --save "" --maxmemory-policy noeviction
	background nats "$work/nats-server" --addr 127.0.0.1 --port "$nats_port" --http_port "$nats_http" \
		--jetstream --store_dir "$work/nats"
	sed -e "s|^dataDir=.*|dataDir=$work/data|" -e "s|^dataLogDir=.*|dataLogDir=$work/datalog|" \
		-e "s|^clientPort=.*|clientPort=$zookeeper_port\nclientPortAddress=127.0.0.1|" "$root/deploy/zoo.cfg" >"$work/zoo.cfg"
	background zookeeper java -Xmx128m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
		-cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
		org.apache.zookeeper.server.quorum.QuorumPeerMain "$work/zoo.cfg"
	within 60 "redis answers" redis_up
	within 60 "nats answers" nats_up
	start_mariadb
	within 60 "zookeeper answers" zookeeper_up
}

run() { # NAME PORT
	docker run --detach --name "$1" --network host \
		--read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 200 --stop-timeout 15 \
		--env TARRY_INSTANCE="$1" --env TARRY_HTTP_LISTEN="127.0.0.1:$2" --env TARRY_SERVER="http://127.0.0.1:$2" \
		--env TARRY_HTTP_TOKEN=$token --env TARRY_TOKEN=$token --env TARRY_LOG_FORMAT=json \
		--env TARRY_NATS_URL="nats://127.0.0.1:$nats_port" --env TARRY_REDIS_ADDRS="127.0.0.1:$redis_port" \
		--env TARRY_ZOOKEEPER_SERVERS="127.0.0.1:$zookeeper_port" --env TARRY_JOURNAL_MODE=sync \
		--env TARRY_JOURNAL_DSN="tarry:$password@tcp(127.0.0.1:$mariadb_port)/tarry" $image >/dev/null
}

state() { docker inspect --format "{{$2}}" "$1"; }
healthy() { [[ $(state "$1" .State.Health.Status) == healthy ]]; }
cluster() { docker exec "$1" /tarry cluster --json; }
leader() { cluster "$1" | sed -n 's/.*"leader":{"instance":"\([^"]*\)".*/\1/p'; } # as that one sees it
term() { cluster "$1" | sed -n 's/.*"term":\([0-9]*\).*/\1/p'; }
leads() { [[ $(leader "$1") == "$1" ]]; }
port_of() { if [[ $1 == "$a" ]]; then echo "$a_port"; else echo "$b_port"; fi; }

confined() { # NAME: asks the kernel, not Docker
	local pid status
	pid=$(state "$1" .State.Pid)
	status=$(tr -s '\t' ' ' <"/proc/$pid/status")
	grep -qx 'Uid: 65532 65532 65532 65532' <<<"$status"
	grep -qx 'Gid: 65532 65532 65532 65532' <<<"$status"
	grep -qx 'CapEff: 0000000000000000' <<<"$status"
	grep -qx 'CapBnd: 0000000000000000' <<<"$status"
	grep -qx 'NoNewPrivs: 1' <<<"$status"
	awk '$5 == "/" { split($6, o, ","); ro = o[1] == "ro" } END { exit !ro }' "/proc/$pid/mountinfo"
}

push() { # NAME FROM TO: one batch, half of it for core NATS and half for a stream
	awk -v from="$2" -v to="$3" -v first=$first_due -v every=$every 'BEGIN {
		printf "{\"messages\":["
		for (i = from; i <= to; i++)
			printf "%s{\"topic\":\"%s.%d\",\"body\":\"number %d\",\"delay\":\"%dms\"}", (i > from ? "," : ""), (i % 2 ? "orders" : "bills"), i, i, first + i * every
		print "]}"
	}' >"$work/batch.json"
	curl --fail-with-body --silent --show-error --max-time 20 --header "Authorization: Bearer $token" \
		--data-binary @"$work/batch.json" "http://127.0.0.1:$(port_of "$1")/v1/messages/batch" >"$work/answer.json"
	[[ $(grep -o '"uid":' "$work/answer.json" | wc -l) -eq $(($3 - $2 + 1)) ]]
	[[ $(grep -o '"durable":"journal"' "$work/answer.json" | wc -l) -eq $(($3 - $2 + 1)) ]]
}

# COUNT: as many messages ended as delivered, says the journal.
journaled() { [[ $(sql "SELECT COUNT(*) FROM tarry.messages JOIN tarry.states ON number = state WHERE word = 'delivered'") -eq $1 ]]; }

arrived() { [[ $(wc -l <"$work/arrivals") -ge $1 ]]; }

install_missing
echo "building"
mkdir "$work/context"
cd "$root"
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=container-sh" -o "$work/context/tarry" ./cmd/tarry
go build -o "$work/listen" ./deploy/listen
go build -o "$work/nats-server" github.com/nats-io/nats-server/v2
start_engine
# The classic builder: BuildKit is a plug-in that Debian does not have. The target needs nothing of it.
DOCKER_BUILDKIT=0 docker build --file Dockerfile --target prebuilt --tag $image "$work/context" >"$work/build.log" 2>&1
[[ $(docker run --rm --read-only --network none $image version) == "tarry container-sh"* ]]
if docker run --rm --network none --entrypoint /bin/sh $image -c true >/dev/null 2>&1; then
	echo "container.sh: there is a shell in the image" >&2
	exit 1
fi
pass "image: built from a static binary alone, $(($(docker inspect --format '{{.Size}}' $image) / 1000000)) MB, no shell," \
	"engine $(docker version --format '{{.Server.Version}}'), $(docker info --format '{{.Driver}}')"

start_servers
free_port && a_port=$port
free_port && b_port=$port
started=$(now)
run $a "$a_port"
run $b "$b_port"
within 60 "both are healthy" eval "healthy $a && healthy $b"
within 30 "one leads" eval "leads $a || leads $b"
active=$(leader $a)
standby=$([[ $active == "$a" ]] && echo $b || echo $a)
first_term=$(term "$active")
pass "health: Docker calls both healthy $(($(now) - started)) ms after the start, the standby too; ${active%-*} leads in term $first_term"
confined $a
confined $b
pass "confined: user 65532, no capability, no new privileges, root file system read-only (as the kernel says)"

"$work/listen" --url "nats://127.0.0.1:$nats_port" --want $messages --within 90s >"$work/arrivals" 2>"$work/listen.log" &
listener=$!
pids+=("$listener")
within 20 "the consumer listens" grep -q listening "$work/listen.log"
push "$active" 1 $((messages / 2))
push "$standby" $((messages / 2 + 1)) $messages
pass "pushed: $messages messages, half to the active one and half to the standby, due over $((messages * every / 1000)) s"

within 60 "a fifth has been delivered" arrived $((messages / 5))
killed=$(now)
docker kill --signal KILL "$active" >/dev/null
[[ $(state "$active" .State.ExitCode) == 137 && $(state "$active" .State.Running) == false ]]
before=$(wc -l <"$work/arrivals")
within 60 "the standby leads" leads "$standby"
[[ $(term "$standby") -gt $first_term ]]
pass "killed: SIGKILL to ${active%-*} after $before arrivals; ${standby%-*} leads in term $(term "$standby"), seen after $(($(now) - killed)) ms"

wait "$listener"
read -r lines distinct early silence late < <(sort -n "$work/arrivals" | awk -v killed="$killed" '
	{ lines++; if (!seen[$3]++) distinct++; if ($2 < 0) early++; if ($1 < killed && $2 > late) late = $2 }
	last && $1 - last > silence { silence = $1 - last }
	{ last = $1 }
	END { print lines, distinct, early + 0, silence, late + 0 }')
echo "     $lines arrivals of $distinct messages, $early early, longest silence $silence ms, at most $late ms late before the kill"
[[ $distinct -eq $messages && $early -eq 0 && $silence -le $takeover && $((lines - distinct)) -le 500 ]]
pass "delivered: all $messages, none early, $((lines - distinct)) twice (with the same Nats-Msg-Id), $silence ms without a leader"

within 20 "the journal has every delivery" journaled $messages
pass "journaled: MariaDB has all $messages messages, each as delivered"

docker start "$active" >/dev/null
within 60 "the killed one is healthy again" healthy "$active"
leads "$standby"
pass "back: ${active%-*} was started again and is a healthy standby"

stopped=$(now)
docker stop "$standby" >/dev/null
took=$(($(now) - stopped))
[[ $(state "$standby" .State.ExitCode) == 0 ]]
within 10 "leadership was handed over" leads "$active"
pass "stopped: docker stop of ${standby%-*} took $took ms, exit code 0; ${active%-*} leads in term $(term "$active")"
