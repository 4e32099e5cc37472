// Package topology tests the files in deploy/ for operators: compose.yaml, nginx.conf, zoo.cfg, tarry.service and the
// Dockerfile. It has nothing but tests.
//
//	compose.yaml ─▶ environment of tarry-a, tarry-b ─▶ two processes ─┐
//	             ─▶ redis-server's flags ────────────▶ one process  ─┤
//	             ─▶ mariadbd's flags, its user ──────▶ one process  ─┤
//	zoo.cfg ─────────────────────────────────────────▶ one process  ─┼─▶ pushed through, killed, asked
//	nginx.conf ──────────────────────────────────────▶ one process  ─┘
//
// Continuous integration pulls no image, so the services of compose.yaml run as plain processes here, on free ports of
// loopback. Everything else is taken from the files as they are: only service:port is replaced by an address, and /tmp
// by the test's directory. tarry refuses a TARRY_ name that it does not know, so a misspelt one in compose.yaml fails
// here. With the build tag docker, container_test.go runs the two instances as real containers: it needs root and
// dockerd (on Debian: apt-get install docker.io), and pulls no image.
//
//	go test -count=1 -tags docker -run Containers ./deploy/topology
package topology
