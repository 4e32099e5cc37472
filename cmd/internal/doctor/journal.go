package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/store/journal"
	"github.com/tarry-mq/tarry/store/timeline"
)

const (
	sqliteScheme = "sqlite:"
	// rowSlack is what tarry serve takes off http.body_limit for the largest row.
	rowSlack = 64 << 10
	// journalConns is how many connections an instance has at most, journalIdle how long it keeps one that rests.
	journalConns = 8
	journalIdle  = 2 * time.Second
)

// database is the journal's.
type database struct {
	*patient
	*notes
	journal.Inspection
}

func (p *patient) journal(ctx context.Context) ([]Check, []reading) {
	n := p.notes("journal", "")
	if p.cfg.Journal.Mode == "off" {
		n.ok("mode", "off: Redis alone keeps the messages, and its loss is theirs")
		return n.checks, nil
	}
	call, cancel := context.WithTimeout(ctx, 2*p.timeout) // some dozen questions
	defer cancel()
	started := time.Now()
	found, err := journal.Inspect(call, journal.Config{
		DSN: p.cfg.Journal.DSN.Reveal(), Namespace: p.cfg.Namespace, MaxRow: int(p.cfg.HTTP.BodyLimit) - rowSlack,
		Log: zerolog.Nop(),
	})
	n.target = found.Place
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
		return "correct user and password in journal.dsn, or grant the user the database"
	case strings.Contains(text, "Unknown database"):
		return "CREATE DATABASE, or correct its name in journal.dsn"
	case strings.Contains(text, "command denied"):
		return "grant the user the database: " + grantText
	case strings.Contains(text, "no such file") || strings.Contains(text, "not a database"):
		return "correct the path in journal.dsn, or make its directory"
	}
	return "start the database, open the port, or correct journal.dsn"
}

func (d *database) reached(trip time.Duration) {
	found := fmt.Sprintf("%s, mode %s, a round trip takes %s", d.Server, d.cfg.Journal.Mode, round(trip))
	if trip > 50*time.Millisecond {
		d.warn("reachable", found,
			"bring the database nearer: with journal.mode sync every answered change waits for several round trips")
	} else {
		d.ok("reachable", "%s", found)
	}
	switch {
	case d.Unfit != nil:
		d.broken("version", d.Unfit, "upgrade to MySQL 8 or MariaDB 10.11")
	case strings.Contains(d.Server, "MariaDB") && !timeline.AtLeast(d.Server, 10, 11):
		d.warn("version", d.Server, "upgrade to MariaDB 10.11 or later: nobody tests tarry on older ones")
	default:
		d.ok("version", "%s", d.Server)
	}
	// The settings are part of the session; a proxy that shares sessions loses them.
	if idle := number(d.Session["wait_timeout"]); idle > 0 && time.Duration(idle)*time.Second <= journalIdle {
		d.fail("wait_timeout", fmt.Sprintf("the server ends sessions that rest for %d s, before tarry lets go of them",
			idle), "raise wait_timeout to 6 s or more for this user")
	} else if idle > 60 {
		d.warn("wait_timeout", fmt.Sprintf("%d s in tarry's session, which asked for 6 s: something between here and "+
			"the server swallows session settings", idle),
			"connect to the server itself, or have the proxy keep a session for each client: an instance that lost "+
				"power would hold its locks for that long")
	} else {
		d.ok("wait_timeout", "%d s in tarry's session", idle)
	}
	if set := d.Charset; !strings.HasPrefix(set, "utf8mb4") {
		d.ok("charset", "%s by default; tarry's own tables are utf8mb4", set)
	} else {
		d.ok("charset", "%s", set)
	}
}

// durable is whether a commit survives a power cut.
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
			": a power cut of the database loses changes that tarry has answered",
			"innodb_flush_log_at_trx_commit=1, sync_binlog=1 and innodb_doublewrite=ON in my.cnf")
	case strings.EqualFold(v["log_bin"], "ON"):
		d.ok("durability", "each commit is on the disk (log and binary log)")
	default:
		d.ok("durability",
			"each commit is on the disk; there is no binary log, so no replica and no point-in-time recovery")
	}
	if force := v["innodb_force_recovery"]; number(force) > 0 {
		d.fail("recovery mode", "innodb_force_recovery="+force+": the server is being repaired", "finish the repair")
	}
}

func (d *database) packet() {
	have := number(d.Session["max_allowed_packet"])
	if have == 0 {
		have = number(d.Variables["max_allowed_packet"])
	}
	found := fmt.Sprintf("%s; messages of up to http.body_limit need %s", size(have), size(d.NeedPacket))
	change := ""
	if have < d.NeedPacket {
		change = fmt.Sprintf("max_allowed_packet=%d or more in my.cnf, or a lower http.body_limit: tarry serve does "+
			"not open this journal", d.NeedPacket)
	}
	d.judge(Fail, "max_allowed_packet", found, change)
}

func (d *database) writes() {
	v := d.Variables
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if on := v[name]; strings.EqualFold(on, "ON") || on == "1" {
			change := "point journal.dsn at the primary"
			if name == "read_only" { // users with SUPER or READ_ONLY ADMIN pass
				d.warn("writable", "read_only is on: this is a replica, or a server that takes no changes", change)
			} else {
				d.fail("writable", name+" is on: this is a replica, or a server that takes no changes", change)
			}
			return
		}
	}
	if strings.EqualFold(v["wsrep_on"], "ON") {
		d.warn("cluster", "Galera: locks, which tarry's fences rest on, hold on one node only",
			"have all instances write to the same node")
	}
	d.ok("writable", "the server takes changes")
}

func (d *database) connections() {
	most, used := number(d.Variables["max_connections"]), number(d.Status["threads_connected"])
	if per := number(d.Variables["max_user_connections"]); per > 0 && per < most {
		most = per
	}
	if most == 0 {
		return
	}
	found := fmt.Sprintf("%d of %d in use, an instance takes %d at most", used, most, journalConns)
	change := ""
	if most-used < 2*journalConns {
		change = fmt.Sprintf("raise max_connections (and max_user_connections): %d for each instance, and one more "+
			"instance's during a restart", journalConns)
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
		d.ok("schema", "version %d; the next start brings it to %d", d.Schema, d.Known)
	default:
		d.ok("schema", "version %d", d.Schema)
	}
	switch owner := d.Namespace; {
	case owner != "" && owner != d.cfg.Namespace:
		d.fail("namespace", fmt.Sprintf("the database belongs to namespace %s, not %s", owner, d.cfg.Namespace),
			"give each namespace a database of its own")
	case owner == "":
		d.ok("namespace", "the database is nobody's yet")
	default:
		d.ok("namespace", "the database is this namespace's")
	}
	var other []string
	for _, table := range []string{"messages", "transitions", "fences", "meta"} {
		if engine := d.Engines[table]; engine != "" && !strings.EqualFold(engine, "InnoDB") {
			other = append(other, table+" ("+engine+")")
		}
	}
	if len(other) > 0 {
		d.fail("engine", "not InnoDB: "+strings.Join(other, ", "),
			"ALTER TABLE … ENGINE=InnoDB: without transactions changes are half written")
	}
}

const grantText = "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON DATABASE.* TO tarry's user"

// privileges joins what the server said to the statements and to SHOW GRANTS.
func (d *database) privileges() {
	missing := slices.Clone(d.Forbidden)
	wanted := []string{}
	if d.Schema == 0 {
		wanted = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	}
	if d.cfg.Journal.Migrate && d.Schema <= d.Known {
		wanted = append(wanted, "CREATE", "ALTER", "INDEX")
	}
	granted, whole := grantsOn(d.Grants, d.Place)
	var unsure []string
	if !granted["ALL PRIVILEGES"] {
		for _, privilege := range wanted {
			switch {
			case granted[privilege]:
			case whole:
				missing = append(missing, privilege)
			default:
				unsure = append(unsure, privilege)
			}
		}
	}
	switch {
	case len(missing) > 0 && d.Schema == d.Known && len(d.Forbidden) == 0:
		d.ok("privileges", "enough to work; the next migration needs %s (or run tarry migrate as another user)",
			shorten(missing))
	case len(missing) > 0:
		d.fail("privileges", "the user may not "+shorten(missing),
			grantText+"; or journal.migrate: false and tarry migrate as another user")
	case len(unsure) > 0:
		d.unknown("privileges", "whether the user may "+shorten(unsure)+
			" the grants do not show: roles may give it", grantText)
	default:
		d.ok("privileges", "the user may do what tarry needs")
	}
}

// grantsOn are the privileges that grants give on a place's database, and whether they are all there is to know.
func grantsOn(grants []string, place string) (granted map[string]bool, whole bool) {
	granted, whole = map[string]bool{}, len(grants) > 0
	database := place[strings.LastIndexByte(place, '/')+1:]
	for _, g := range grants {
		text, ok := strings.CutPrefix(g, "GRANT ")
		privileges, on, given := strings.Cut(text, " ON ")
		if !ok || !given { // a role
			whole = whole && !ok
			continue
		}
		on, _, _ = strings.Cut(on, " TO ")
		schema, table, _ := strings.Cut(on, ".")
		if schema = strings.Trim(schema, "`"); table != "*" || schema != "*" && !likeName(schema, database) {
			continue
		}
		for privilege := range strings.SplitSeq(privileges, ",") {
			granted[strings.TrimSpace(strings.ToUpper(privilege))] = true
		}
	}
	return granted, whole
}

// likeName matches a schema's name in a grant, in which _ and % are wildcards unless they are escaped.
func likeName(pattern, name string) bool {
	switch {
	case pattern == "":
		return name == ""
	case pattern[0] == '%':
		return likeName(pattern[1:], name) || name != "" && likeName(pattern, name[1:])
	case name == "":
		return false
	case pattern[0] == '\\' && len(pattern) > 1:
		return pattern[1] == name[0] && likeName(pattern[2:], name[1:])
	case pattern[0] == '_' || pattern[0] == name[0]:
		return likeName(pattern[1:], name[1:])
	}
	return false
}

// lite looks at the file of a journal for one machine.
func (d *database) lite() {
	dir := filepath.Dir(d.File)
	switch {
	case d.Missing:
		d.ok("file", "not there yet; the first start makes it")
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
			"give it to the user that runs tarry: SQLite makes files beside the database")
	} else {
		d.ok("writable", "the directory and the file may be written to")
	}
	switch kind := networked(dir); {
	case kind != "":
		d.fail("file system", dir+" is on "+kind+", where SQLite's locks and its shared memory do not hold",
			"put the file on a local disk, or take MySQL or MariaDB")
	case volatile(dir):
		d.warn("file system", dir+" is in memory, and gone after a restart of the machine", "put the file on a disk")
	default:
		d.ok("file system", "a local disk; tarry syncs every commit (synchronous FULL)")
	}
	d.warnOfMany()
}

// warnOfMany is about a file that only one machine has.
func (d *database) warnOfMany() {
	var remote []string
	for _, addr := range slices.Concat(d.cfg.Redis.Addrs, d.cfg.ZooKeeper.Servers) {
		if !local(addr) {
			remote = append(remote, addr)
		}
	}
	if slices.Sort(remote); len(remote) > 0 {
		d.warn("one machine", "the journal is a file of this machine, and Redis and ZooKeeper are others' too",
			"take MySQL or MariaDB where instances run on several machines: each would have a journal of its own")
	}
}
