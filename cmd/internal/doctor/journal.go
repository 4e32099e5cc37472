package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/timeline"
)

const (
	sqliteScheme = "sqlite:"
	// journalConns is the largest number of an instance's connections. journalIdle is how long it keeps an idle one.
	journalConns = 8
	journalIdle  = 2 * time.Second
)

// database is the database of the journal.
type database struct {
	*patient
	*notes
	journal.Inspection
}

func (p *patient) journal(ctx context.Context) ([]Check, []reading) {
	n := p.notes("journal", "")
	if p.cfg.Journal.Mode == "off" {
		n.ok("mode", "off: only Redis keeps the messages, and its loss loses them")
		return n.checks, nil
	}
	call, cancel := context.WithTimeout(ctx, 2*p.timeout) // some dozen questions
	defer cancel()
	started := time.Now()
	found, err := journal.Inspect(call, journal.Config{
		DSN: p.cfg.Journal.DSN.Reveal(), Namespace: p.cfg.Namespace, MaxRow: p.cfg.HTTP.LargestMessage(),
		Log: zerolog.Nop(),
	})
	n.target = found.Place
	if config.Secret(p.cfg.Journal.Password()).Printed() {
		n.warn("password", "it is the one that tarry's pages print", "give the database's user another, and journal.dsn too")
	}
	if err != nil {
		n.broken("reachable", err, journalChange(err))
		return n.checks, nil
	}
	d := &database{p, n, found}
	if d.File != "" {
		d.lite()
		d.schema()
		return n.checks, nil
	}
	var clocks []reading
	trip := time.Since(started)
	for _, c := range d.Clocks {
		clocks = append(clocks, read("journal", c.Server, c.Sent, c.Got))
		trip = min(trip, c.Got.Sub(c.Sent))
	}
	d.reached(trip)
	d.durable()
	d.packet()
	d.writes()
	d.connections()
	d.schema()
	d.privileges()
	return n.checks, clocks
}

func journalChange(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, journal.ErrUnfit):
		return "correct journal.dsn: user:password@tcp(host:3306)/database, or sqlite:FILE"
	case strings.Contains(text, "Access denied"):
		return "correct user and password in journal.dsn, or grant the user access to the database"
	case strings.Contains(text, "Unknown database"):
		return "create the database (CREATE DATABASE), or correct its name in journal.dsn"
	case strings.Contains(text, "command denied"):
		return "grant the user these rights: " + grantText
	case strings.Contains(text, "no such file") || strings.Contains(text, "not a database"):
		return "correct the path in journal.dsn, or make its directory"
	}
	return "start the database, open the port, or correct journal.dsn"
}

func (d *database) reached(trip time.Duration) {
	found := fmt.Sprintf("%s, mode %s, a round trip takes %s", d.Server, d.cfg.Journal.Mode, round(trip))
	if trip > 50*time.Millisecond {
		d.warn("reachable", found,
			"bring the database nearer: with journal.mode sync, every answered change waits for several round trips")
	} else {
		d.ok("reachable", "%s", found)
	}
	switch {
	case d.Unfit != nil:
		d.broken("version", d.Unfit, "upgrade to MySQL 8 or MariaDB 10.11")
	case strings.Contains(d.Server, "MariaDB") && !timeline.AtLeast(d.Server, 10, 11):
		d.warn("version", d.Server, "upgrade to MariaDB 10.11 or later: tarry is not tested on older versions")
	default:
		d.ok("version", "%s", d.Server)
	}
	// The settings belong to the session: a proxy that shares sessions loses them.
	if idle := number(d.Session["wait_timeout"]); idle > 0 && time.Duration(idle)*time.Second <= journalIdle {
		d.fail("wait_timeout", fmt.Sprintf("the server ends sessions that are idle for %d s, before tarry closes "+
			"them", idle),
			"raise wait_timeout to 6 s or more for this user")
	} else if idle > 60 {
		d.warn("wait_timeout", fmt.Sprintf("%d s in tarry's session, which asked for 6 s: something between here and "+
			"the server drops session settings", idle),
			"connect to the server itself, or let the proxy keep a session for each client: otherwise an instance "+
				"that lost power holds its locks for that long")
	} else {
		d.ok("wait_timeout", "%d s in tarry's session", idle)
	}
}

// durable checks whether a commit survives a power failure.
func (d *database) durable() {
	v := d.Variables
	var lax []string
	if flush, there := v["innodb_flush_log_at_trx_commit"]; there && flush != "1" {
		lax = append(lax, "innodb_flush_log_at_trx_commit="+flush)
	}
	if binlog := v["sync_binlog"]; strings.EqualFold(v["log_bin"], "ON") && binlog != "1" {
		lax = append(lax, "sync_binlog="+binlog)
	}
	if double := v["innodb_doublewrite"]; strings.EqualFold(double, "OFF") || double == "0" {
		lax = append(lax, "innodb_doublewrite="+double)
	}
	switch {
	case len(lax) > 0:
		d.warn("durability", strings.Join(lax, ", ")+
			": a power failure of the database loses changes that tarry has answered",
			"innodb_flush_log_at_trx_commit=1, sync_binlog=1 and innodb_doublewrite=ON in my.cnf")
	case strings.EqualFold(v["log_bin"], "ON"):
		d.ok("durability", "each commit is on disk (log and binary log)")
	default:
		d.ok("durability",
			"each commit is on disk; without a binary log there is no replica and no point-in-time recovery")
	}
	if force := v["innodb_force_recovery"]; number(force) > 0 {
		d.fail("recovery mode", "innodb_force_recovery="+force+": the server is being repaired", "finish the repair")
	}
}

func (d *database) packet() {
	have := cmp.Or(number(d.Session["max_allowed_packet"]), number(d.Variables["max_allowed_packet"]))
	found := fmt.Sprintf("%s; messages of up to http.body_limit need %s", size(have), size(d.NeedPacket))
	change := ""
	if have < d.NeedPacket {
		change = fmt.Sprintf("max_allowed_packet=%d or more in my.cnf, or a lower http.body_limit: tarry serve does "+
			"not open this journal otherwise", d.NeedPacket)
	}
	d.judge(Fail, "max_allowed_packet", found, change)
}

func (d *database) writes() {
	v := d.Variables
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if on := v[name]; strings.EqualFold(on, "ON") || on == "1" {
			change := "point journal.dsn at the primary"
			if name == "read_only" { // users with SUPER or READ_ONLY ADMIN pass
				d.warn("writable", "read_only is on: this is a replica, or a server that accepts no changes", change)
			} else {
				d.fail("writable", name+" is on: this is a replica, or a server that accepts no changes", change)
			}
			return
		}
	}
	if strings.EqualFold(v["wsrep_on"], "ON") {
		d.warn("cluster", "Galera: tarry's fences use locks, which hold on only one node",
			"let all instances write to the same node")
	}
	d.ok("writable", "the server accepts changes")
}

func (d *database) connections() {
	most, used := number(d.Variables["max_connections"]), number(d.Status["threads_connected"])
	if per := number(d.Variables["max_user_connections"]); per > 0 && per < most {
		most = per
	}
	if most == 0 {
		return
	}
	found := fmt.Sprintf("%d of %d in use, an instance uses at most %d", used, most, journalConns)
	change := ""
	if most-used < 2*journalConns {
		change = fmt.Sprintf("raise max_connections (and max_user_connections): %d for each instance, and for one "+
			"more during a restart", journalConns)
	}
	d.judge(Warn, "connections", found, change)
}

func (d *database) schema() {
	const migrate = "run tarry migrate"
	switch {
	case d.Schema > d.Known:
		d.fail("schema", fmt.Sprintf("version %d, made by a newer tarry; this one knows %d", d.Schema, d.Known),
			"run the newer tarry")
	case d.Schema < d.Known && !d.cfg.Journal.Migrate:
		d.fail("schema", fmt.Sprintf("version %d, this tarry needs %d, and journal.migrate is off", d.Schema, d.Known),
			migrate+" before the next start")
	case d.Schema < d.Known:
		d.ok("schema", "version %d; the next start migrates it to %d", d.Schema, d.Known)
	default:
		d.ok("schema", "version %d", d.Schema)
	}
	switch owner := d.Namespace; {
	case owner != "" && owner != d.cfg.Namespace:
		d.fail("namespace", fmt.Sprintf("the database belongs to namespace %s, not %s", owner, d.cfg.Namespace),
			"give each namespace a database of its own")
	case owner == "":
		d.ok("namespace", "the database belongs to no namespace yet")
	default:
		d.ok("namespace", "the database belongs to this namespace")
	}
	var other []string
	for _, table := range []string{"messages", "transitions", "rejects", "fences", "meta"} {
		if engine := d.Engines[table]; engine != "" && !strings.EqualFold(engine, "InnoDB") {
			other = append(other, table+" ("+engine+")")
		}
	}
	if len(other) > 0 {
		d.fail("engine", "not InnoDB: "+strings.Join(other, ", "),
			"ALTER TABLE … ENGINE=InnoDB: without transactions, a change may be written in part")
	}
}

const grantText = "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON DATABASE.* TO tarry's user"

// privileges tells what the server refused to plan. Without tables there is nothing to plan yet, and what a migration
// needs shows in the migration.
func (d *database) privileges() {
	switch {
	case len(d.Forbidden) > 0:
		d.fail("privileges", "the user may not "+shorten(d.Forbidden), grantText)
	case d.Schema == 0:
		d.unknown("privileges", "there are no tables yet", grantText)
	default:
		d.ok("privileges", "the user may do what tarry needs; migrations also need CREATE, ALTER and INDEX")
	}
}

// lite checks the file of a journal for one machine.
func (d *database) lite() {
	dir := filepath.Dir(d.File)
	switch {
	case d.Missing:
		d.ok("file", "does not exist yet; the first start makes it")
	default:
		d.ok("file", "SQLite %s, journal mode %s", d.Server, d.Variables["journal_mode"])
	}
	var closed []string
	if err := writable(dir); err != nil {
		closed = append(closed, dir)
	}
	if !d.Missing {
		for _, file := range []string{d.File, d.File + "-wal", d.File + "-shm"} {
			if f, err := os.OpenFile(file, os.O_RDWR, 0); err == nil {
				_ = f.Close()
			} else if !errors.Is(err, os.ErrNotExist) {
				closed = append(closed, file)
			}
		}
	}
	if len(closed) > 0 {
		d.fail("writable", "this user may not write to "+strings.Join(closed, ", "),
			"give it to the user that runs tarry: SQLite makes files next to the database")
	} else {
		d.ok("writable", "this user may write to the directory and the file")
	}
	d.fileSystem(dir, "where SQLite's locks and its shared memory do not work",
		"put the file on a local disk, or use MySQL or MariaDB", "a local disk; tarry syncs every commit (synchronous FULL)")
	d.warnOfMany()
}

// warnOfMany warns if several machines may run instances, since the file is on only one of them.
func (d *database) warnOfMany() {
	var remote []string
	for _, addr := range slices.Concat(d.cfg.Redis.Addrs, d.cfg.ZooKeeper.Servers) {
		if !config.Loopback(addr) {
			remote = append(remote, addr)
		}
	}
	if slices.Sort(remote); len(remote) > 0 {
		d.warn("one machine", "the journal is a file of this machine, but others can use the same Redis and ZooKeeper",
			"if instances run on several machines, use MySQL or MariaDB: otherwise each has its own journal")
	}
}
