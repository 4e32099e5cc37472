package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// oneMachine checks what store: memory uses in place of Redis and ZooKeeper: a directory.
func (p *patient) oneMachine(context.Context) ([]Check, []reading) {
	n := p.notes("data", p.cfg.Data)
	dir := p.cfg.Data
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		n.ok("directory", "does not exist yet; the first start makes it")
		dir = existing(dir)
	} else if err != nil {
		n.broken("directory", err, "let the user that runs tarry enter the directory")
		return n.checks, nil
	} else {
		n.ok("directory", "exists")
	}
	if err := writable(dir); err != nil {
		n.broken("writable", err, "give "+dir+" to the user that runs tarry")
	} else {
		n.ok("writable", "this user may write to %s", dir)
	}
	n.fileSystem(dir, "where a second instance on another machine may not see the lock", "put data on a local disk",
		"a local disk")
	if p.cfg.Embedded() {
		n.ok("nats", "embedded, served on %s; it syncs every write before it acknowledges it", p.cfg.NATS.Listen)
	} else {
		n.ok("nats", "your own: unless it has sync_interval: always, a power failure may lose what it acknowledged "+
			"within its sync_interval (2 minutes by default)")
	}
	return n.checks, nil
}

// fileSystem checks where a directory is. Where says what is amiss on a network, and advice what to do then.
func (n *notes) fileSystem(dir, where, advice, fine string) {
	switch kind := networked(dir); {
	case kind != "":
		n.fail("file system", dir+" is on "+kind+", "+where, advice)
	case volatile(dir):
		n.warn("file system", dir+" is in memory, and lost when the machine restarts", advice)
	default:
		n.ok("file system", "%s", fine)
	}
}

// existing returns the nearest parent directory that exists.
func existing(dir string) string {
	for {
		up := filepath.Dir(dir)
		if _, err := os.Stat(up); err == nil || up == dir {
			return up
		}
		dir = up
	}
}
