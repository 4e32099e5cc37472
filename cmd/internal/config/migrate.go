package config

import "github.com/spf13/pflag"

// Migrate are the settings of tarry migrate, checked.
type Migrate struct {
	Namespace string         `setting:"namespace"`
	Journal   MigrateJournal `setting:"journal"`
	Log       Log            `setting:"log"`
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
