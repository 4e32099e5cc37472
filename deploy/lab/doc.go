// Package lab starts the real servers that a test needs: redis-server, nats-server, ZooKeeper and MariaDB, each on a
// free port of 127.0.0.1 with its data in the test's own directory. It also starts tarry itself, and puts a proxy that
// can freeze between any two of them. It uses the standard library only and runs on Linux.
//
//	own := lab.NewRedis(t, "--appendfsync", "always") // one server for this test: break it as you like
//	all := lab.SharedRedis(t)                         // one server for this test binary: never break it
//	dsn := lab.SharedMariaDB(t).Database(t)           // an empty database for this test
//	p := lab.NewProxy(t, own.Addr)                    // p.Stall(), p.StallReplies(), p.Cut(), p.Heal()
//	own.Kill()
//	own.Restart()
//
// Rules:
//
//   - A missing server fails the test with the line that installs it (install.sh has them all). Only -short skips a
//     test, with the name of what it needs (see Needs): a green run without -short means that everything ran.
//   - A constructor returns when the protocol answers, not when the port is open.
//   - Tests that only need a server share one (SharedRedis, SharedNATS, SharedZooKeeper, SharedMariaDB) and keep apart
//     by key prefix, subject prefix, chroot or Database. Tests that stop, fill or slow a server take their own.
//   - Nothing outlives the test. An own server is stopped by the test's clean-up. A shared one dies with the test
//     binary, even when that is killed: the kernel sends it SIGKILL (see spawner), and a small shell removes its
//     directory.
//   - Signals go to the child's own pid and process group, never to a name.
//   - When the test fails, the end of each server's output is in the test's log.
//
// A child's life:
//
//	          start             Pause
//	stopped ---------> running -------> paused
//	   ^                 |  ^--Resume---- |
//	   |   Stop, Kill    |                |
//	   +-----------------+----------------+
//
// Restart leads from any state to running, with the same port and the same data. Pause, Resume, Kill, Stop and Signal
// may be called from any goroutine; functions that can end the test (constructors, Restart, Wait, WaitLog) must be
// called from the test's own goroutine.
package lab
