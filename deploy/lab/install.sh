#!/bin/sh
# Installs the servers that package lab starts, and the linters of .ci/test, on Debian or Ubuntu. Quick and silent when
# all are there.
# The current nats-server is not installed: lab builds it from go.mod. Debian's 2.9 is the oldest that tarry supports.
set -eu

want=
need() { # FILE PACKAGE
	[ -e "$1" ] || want="$want $2"
}
need /usr/bin/redis-server redis-server
need /usr/sbin/nats-server nats-server
need /usr/sbin/nginx nginx-light
need /usr/share/java/zookeeper.jar libzookeeper-java
need /usr/share/java/slf4j-simple.jar libslf4j-java
# The zookeeper package would bring a desktop's Java; the headless one is enough.
need /usr/bin/java default-jre-headless
need /usr/sbin/mariadbd mariadb-server
need /usr/bin/beanstalkd beanstalkd
for server in /usr/lib/postgresql/*/bin/postgres; do
	need "$server" postgresql
done
need /usr/bin/chromium-headless-shell chromium-headless-shell
# What .ci/test checks the scripts, the alerts and the pages with.
need /usr/bin/curl curl
need /usr/bin/luacheck lua-check
need /usr/bin/shellcheck shellcheck
need /usr/bin/promtool prometheus
# What deploy/release makes packages and images with.
need /usr/bin/dh debhelper
need /usr/bin/lintian lintian
need /usr/bin/umoci umoci
need /usr/bin/skopeo skopeo
need /usr/bin/jq jq
need /etc/ssl/certs/ca-certificates.crt ca-certificates
[ -n "$want" ] || exit 0

root=
[ "$(id -u)" -eq 0 ] || root="sudo --preserve-env=DEBIAN_FRONTEND"
DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND

# Debian starts a service as it installs one. Lab starts its own, so ask it not to; services that run already go on.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' | $root tee $policy >/dev/null
	trap '$root rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	$root chmod 755 $policy
fi

$root apt-get update -q
# shellcheck disable=SC2086 # a list of words
$root apt-get install -q -y --no-install-recommends $want
