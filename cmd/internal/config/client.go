package config

import (
	"time"

	"github.com/spf13/pflag"
)

// Client are the settings of the commands that call an instance, checked.
type Client struct {
	Server  string        `setting:"server"` // may end in "/"
	Token   Secret        `setting:"token"`
	JSON    bool          `setting:"json"`
	Timeout time.Duration `setting:"timeout"`
}

// AddClientFlags gives fs a flag for every setting of the client commands, and --config.
func AddClientFlags(fs *pflag.FlagSet) { addFlags(fs, client) }

// LoadClient reads all layers, as LoadServe does.
func LoadClient(flags *pflag.FlagSet, environ []string) (Client, error) {
	l := newLoader(client)
	return l.client(l.given(flags, environ, readFile))
}

func (l *loader) client(ready bool) (Client, error) {
	var c Client
	if ready {
		l.fill(&c)
	}
	if err := l.err(); err != nil {
		return Client{}, err
	}
	return c, nil
}

// String is the settings as YAML, secrets masked.
func (c Client) String() string { return describe(&c, client) }
