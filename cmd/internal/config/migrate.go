package config

import "github.com/spf13/pflag"

// Migrate are the settings of tarry migrate, checked.
type Migrate struct {
	Namespace string         `setting:"namespace"`
	Data      string         `setting:"data"` // of the instance on one machine that is left; may be empty
	HTTP      MigrateHTTP    `setting:"http"`
	NATS      NATS           `setting:"nats"` // that the intake of an embedded one is carried into
	Journal   MigrateJournal `setting:"journal"`
	Log       Log            `setting:"log"`
}

// MigrateHTTP bounds the messages.
type MigrateHTTP struct {
	BodyLimit int64 `setting:"body_limit"`
}

// MigrateJournal is the database; the DSN holds a password.
type MigrateJournal struct {
	DSN Secret `setting:"dsn"`
}

// AddMigrateFlags gives fs a flag for every setting of tarry migrate, and --config.
func AddMigrateFlags(fs *pflag.FlagSet) { addFlags(fs, migrate) }

// LoadMigrate reads all layers, as LoadServe does.
func LoadMigrate(flags *pflag.FlagSet, environ []string) (Migrate, error) {
	l := newLoader(migrate)
	return l.migrate(l.given(flags, environ, readFile))
}

func (l *loader) migrate(ready bool) (Migrate, error) {
	var m Migrate
	if ready {
		l.fill(&m)
		l.checkNATS()
		if m.Journal.DSN == "" && l.good("journal.dsn") {
			l.refuse("journal.dsn", "is not set")
		}
	}
	if err := l.err(); err != nil {
		return Migrate{}, err
	}
	return m, nil
}

// String is the settings as YAML, secrets masked.
func (m Migrate) String() string { return describe(&m, migrate) }
