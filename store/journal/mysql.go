package journal

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"
)

const (
	// dialPatience, readPatience and writePatience are backstops: calls end with their contexts.
	dialPatience  = 10 * time.Second
	readPatience  = 2 * time.Minute
	writePatience = time.Minute
	// serverPatience is how long the server keeps a silent session. An instance that loses power or hangs in the middle
	// of a write holds its locks no longer than that, and a fence waits for it no longer.
	serverPatience = 6 * time.Second
	// idlePatience is how long an unused connection is kept, below serverPatience.
	idlePatience = 2 * time.Second
	// lockPatience is how long the server lets a statement wait for a row's lock: longer than serverPatience, so that a
	// wait for a dead session succeeds.
	lockPatience = 20 * time.Second

	// mysqlRows and mysqlBytes bound one statement.
	mysqlRows  = 500
	mysqlBytes = 4 << 20
	// packetRoom is the size of a statement without its values.
	packetRoom = 64 << 10
)

// sqlMode makes the server refuse values that it would otherwise truncate or change silently. It leaves out
// NO_BACKSLASH_ESCAPES and ANSI_QUOTES, which change the meaning of statements.
const sqlMode = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// connectMySQL takes host, credentials, TLS and the like from the DSN. It sets the options on which tarry's statements
// depend itself. It does not connect yet.
func (s *SQL) connectMySQL(dsn string) error {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil || cfg.DBName == "" { // err may quote the DSN, which holds a password
		return fmt.Errorf("%w: its DSN is not of the form user:password@tcp(host:port)/database or %sFILE",
			ErrUnfit, sqliteScheme)
	}
	cfg.InterpolateParams = true // prepared is a little faster, not worth its statements: BenchmarkWrite
	cfg.ParseTime = false
	cfg.MultiStatements = false
	cfg.ClientFoundRows = false
	cfg.AllowAllFiles = false
	cfg.MaxAllowedPacket = 0 // ask the server
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), dialPatience)
	cfg.ReadTimeout = cmp.Or(max(cfg.ReadTimeout, 0), readPatience)
	cfg.WriteTimeout = cmp.Or(max(cfg.WriteTimeout, 0), writePatience)
	cfg.Logger = driverLog{s.log}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["sql_mode"] = "'" + sqlMode + "'"
	cfg.Params["wait_timeout"] = strconv.Itoa(int(serverPatience.Seconds()))
	cfg.Params["innodb_lock_wait_timeout"] = strconv.Itoa(int(lockPatience.Seconds()))
	if err := cfg.Apply(mysql.Charset("utf8mb4", "utf8mb4_bin")); err != nil {
		return fmt.Errorf("set the character set: %w", err)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("%w: its DSN cannot be used", ErrUnfit)
	}
	s.kind = &dialect{
		place:      fmt.Sprintf("%s(%s)/%s", cfg.Net, cfg.Addr, cfg.DBName),
		check:      checkMySQL,
		lock:       lockMySQL,
		migrations: "migrations/mysql", goose: "mysql",

		conflict: " ON DUPLICATE KEY UPDATE ",
		// MariaDB does not know the newer form with a row alias.
		incoming: func(column string) string { return "VALUES(" + column + ")" },
		greatest: "GREATEST",
		div:      "DIV",
		like:     "LIKE ? ESCAPE '!'",
		any:      "%",
		literal:  strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace,
		share:    " LOCK IN SHARE MODE",
		update:   " FOR UPDATE",
		exact:    func(column string) string { return "LENGTH(" + column + ") = ?" },
		index:    func(name string) string { return " FORCE INDEX (" + name + ")" },
		rows:     mysqlRows,
		bytes:    mysqlBytes,
		snapshot: &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	}
	db := sql.OpenDB(session{connector})
	db.SetMaxOpenConns(s.cfg.Conns)
	db.SetMaxIdleConns(s.cfg.Conns)
	db.SetConnMaxIdleTime(idlePatience)
	s.write = pool{db, &s.prepared}
	s.read = s.write
	return nil
}

// session prepares each connection. With READ COMMITTED an upsert locks the rows it touches but not the gaps between
// them, over which writers would deadlock. MySQL 8 and MariaDB 10 share no variable for it, so Params cannot set it.
type session struct{ driver.Connector }

func (s session) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(driver.ExecerContext).ExecContext(
		ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// driverLog logs the driver's messages about broken connections, which are also returned as errors.
type driverLog struct{ log zerolog.Logger }

func (l driverLog) Print(v ...any) {
	l.log.Debug().Str("driver", fmt.Sprint(v...)).Msg("journal connection")
}

// checkMySQL requires a server version that the statements were written for, and a server that accepts the longest of
// them.
func checkMySQL(ctx context.Context, s *SQL) error {
	var version string
	var packet int64
	if err := s.read.db.QueryRowContext(ctx, "SELECT VERSION(), @@max_allowed_packet").Scan(
		&version, &packet); err != nil {
		return fmt.Errorf("ask the server for its version: %w", err)
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	// A byte that needs escaping takes two.
	if need := 2*int64(s.cfg.MaxRow) + packetRoom; packet < need {
		return fmt.Errorf("%w: its max_allowed_packet is %d; messages of up to %d bytes need %d", ErrUnfit, packet,
			s.cfg.MaxRow, need)
	}
	s.kind.bytes = int(min(packet, mysqlBytes))
	return s.warnOfGalera(ctx)
}

// warnOfGalera warns of a cluster of equal servers: locks, on which fences rely, and GET_LOCK are held on only one of
// its nodes.
func (s *SQL) warnOfGalera(ctx context.Context) error {
	err := each(ctx, s.read.db, "SHOW VARIABLES LIKE 'wsrep_on'", nil, func(row scanner) error {
		var name, value string
		if err := row.Scan(&name, &value); err != nil {
			return err
		}
		if value == "ON" {
			s.log.Warn().Msg("journal on a Galera cluster: all instances must write to the same node")
		}
		return nil
	})
	return wrap(err, "ask the server for its settings")
}

// checkVersion parses the answer of VERSION(): "8.0.43-log", "10.11.14-MariaDB-1".
func checkVersion(version string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("%w: its version %q is not understood", ErrUnfit, version)
	}
	least, name := [2]int{8, 0}, "MySQL"
	if strings.Contains(version, "MariaDB") {
		least, name = [2]int{10, 5}, "MariaDB"
	}
	if major < least[0] || major == least[0] && minor < least[1] {
		return fmt.Errorf("%w: it is %s %s; tarry needs %d.%d or later", ErrUnfit, name, version, least[0], least[1])
	}
	return nil
}

// lockMySQL runs do while it holds this database's lock. The lock belongs to the session and ends with it.
func lockMySQL(ctx context.Context, s *SQL, do func(*sql.DB) error) error {
	conn, err := s.write.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	defer conn.Close()
	// The session must end and not return to the pool.
	defer conn.Raw(func(any) error { return driver.ErrBadConn })
	// The session is silent while do uses others, so the server must not time it out.
	if _, err := conn.ExecContext(ctx, "SET SESSION wait_timeout = 28800"); err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	for locked := false; !locked; {
		var got sql.NullInt64
		// A lock's name may have 64 characters.
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(CONCAT('tarry ', SHA1(DATABASE())), 5)").Scan(
			&got); err != nil {
			return fmt.Errorf("lock the schema: %w", err)
		}
		locked = got.Int64 == 1
	}
	return do(s.write.db)
}
