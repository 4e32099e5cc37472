package doctor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/store/journal"
)

const sqliteScheme = "sqlite:"

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
	if d.ok("reachable", "%s, mode %s, a round trip takes %s", d.Server, d.cfg.Journal.Mode, round(trip)); d.Unfit != nil {
		d.broken("version", d.Unfit, "upgrade to MySQL 8 or MariaDB 10.11")
	}
	d.variables()
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

// mysqlRules hold the variables of a server. wait_timeout is that of tarry's session, in seconds: a proxy that shares
// sessions loses it.
var mysqlRules = []rule{
	{"version", "fit=yes mariadb=yes version<10.11", Warn, "{version}",
		"upgrade to MariaDB 10.11 or later: tarry is not tested on older versions"},
	{"version", "fit=yes", OK, "{version}", ""},
	{"wait_timeout", "wait_timeout>0 wait_timeout<3", Fail,
		"the server ends sessions that are idle for {wait_timeout} s, before tarry closes them",
		"raise wait_timeout to 6 s or more for this user"},
	{"wait_timeout", "wait_timeout>60", Warn,
		"{wait_timeout} s in tarry's session, which asked for 6 s: something between here and the server drops session " +
			"settings",
		"connect to the server itself, or let the proxy keep a session for each client: otherwise an instance that lost " +
			"power holds its locks for that long"},
	{"wait_timeout", "", OK, "{wait_timeout} s in tarry's session", ""},
	{"durability", "innodb_flush_log_at_trx_commit!=1|", Warn, mysqlLax, mysqlDurable},
	{"durability", "log_bin=ON sync_binlog!=1", Warn, mysqlLax, mysqlDurable},
	{"durability", "innodb_doublewrite=OFF|0", Warn, mysqlLax, mysqlDurable},
	{"durability", "log_bin=ON", OK, "each commit is on disk (log and binary log)", ""},
	{"durability", "", OK,
		"each commit is on disk; without a binary log there is no replica and no point-in-time recovery", ""},
	{"recovery mode", "innodb_force_recovery>0", Fail,
		"innodb_force_recovery={innodb_force_recovery}: the server is being repaired", "finish the repair"},
	{"max_allowed_packet", "max_allowed_packet<{least}", Fail, "{packet}; messages of up to http.body_limit need {need}",
		"max_allowed_packet={least} or more in my.cnf, or a lower http.body_limit: tarry serve does not open this journal " +
			"otherwise"},
	{"max_allowed_packet", "", OK, "{packet}; messages of up to http.body_limit need {need}", ""},
	{"writable", "super_read_only=ON|1", Fail, "super_read_only is on" + mysqlReplica, mysqlPrimary},
	{"writable", "innodb_read_only=ON|1", Fail, "innodb_read_only is on" + mysqlReplica, mysqlPrimary},
	// Users with SUPER or READ_ONLY ADMIN pass.
	{"writable", "read_only=ON|1", Warn, "read_only is on" + mysqlReplica, mysqlPrimary},
	{"writable", "", OK, "the server accepts changes", ""},
	{"cluster", "wsrep_on=ON", Warn, "Galera: tarry's fences use locks, which hold on only one node",
		"let all instances write to the same node"},
}

const (
	mysqlLax = "innodb_flush_log_at_trx_commit={innodb_flush_log_at_trx_commit}, sync_binlog={sync_binlog}, " +
		"innodb_doublewrite={innodb_doublewrite}: a power failure of the database loses changes that tarry has answered"
	mysqlDurable = "innodb_flush_log_at_trx_commit=1, sync_binlog=1 and innodb_doublewrite=ON in my.cnf"
	mysqlReplica = ": this is a replica, or a server that accepts no changes"
	mysqlPrimary = "point journal.dsn at the primary"
)

func (d *database) variables() {
	f := facts(d.Variables)
	have := cmp.Or(number(d.Session["max_allowed_packet"]), number(f["max_allowed_packet"]))
	d.apply(mysqlRules, f.with("version", d.Server, "fit", yes(d.Unfit == nil),
		"mariadb", yes(strings.Contains(d.Server, "MariaDB")), "wait_timeout", cmp.Or(d.Session["wait_timeout"], "0"),
		"max_allowed_packet", strconv.FormatInt(have, 10), "packet", size(have),
		"least", strconv.FormatInt(d.NeedPacket, 10), "need", size(d.NeedPacket)))
}

// schemaRules hold what the database holds against what this tarry needs.
var schemaRules = []rule{
	{"schema", "schema>{known}", Fail, "version {schema}, made by a newer tarry; this one knows {known}",
		"run the newer tarry"},
	{"schema", "schema<{known} journal.migrate=false", Fail,
		"version {schema}, this tarry needs {known}, and journal.migrate is off", "run tarry migrate before the next start"},
	{"schema", "schema<{known}", OK, "version {schema}; the next start migrates it to {known}", ""},
	{"schema", "", OK, "version {schema}", ""},
	{"namespace", "owner=", OK, "the database belongs to no namespace yet", ""},
	{"namespace", "owner!={namespace}", Fail, "the database belongs to namespace {owner}, not {namespace}",
		"give each namespace a database of its own"},
	{"namespace", "", OK, "the database belongs to this namespace", ""},
	{"engine", "other!=", Fail, "not InnoDB: {other}",
		"ALTER TABLE … ENGINE=InnoDB: without transactions, a change may be written in part"},
}

func (d *database) schema() {
	var other []string
	for _, table := range []string{"messages", "transitions", "rejects", "actions", "fences", "meta"} {
		if engine := d.Engines[table]; engine != "" && !strings.EqualFold(engine, "InnoDB") {
			other = append(other, table+" ("+engine+")")
		}
	}
	d.apply(schemaRules, facts{"schema": strconv.FormatInt(d.Schema, 10), "known": strconv.FormatInt(d.Known, 10),
		"journal.migrate": strconv.FormatBool(d.cfg.Journal.Migrate), "owner": d.Namespace,
		"namespace": d.cfg.Namespace, "other": shorten(other)})
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
