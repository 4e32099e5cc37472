package config

import (
	"github.com/spf13/pflag"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// Dev are the settings of tarry dev, checked.
type Dev struct {
	Namespace string  `setting:"namespace"`
	HTTP      DevHTTP `setting:"http"`
	NATS      DevNATS `setting:"nats"`
	Retry     string  `setting:"retry"`
	Dead      Dead    `setting:"dead"`
	Topics    []Topic `setting:"topics"`
	Data      string  `setting:"data"` // empty: a temporary directory
	Log       Log     `setting:"log"`
}

// DevHTTP is where the one process serves HTTP.
type DevHTTP struct {
	Listen     string   `setting:"listen"`
	Token      Secret   `setting:"token"`
	Tokens     []Token  `setting:"tokens"`
	TokensFile string   `setting:"tokens_file"`
	Insecure   bool     `setting:"insecure"`
	Hosts      []string `setting:"hosts"`
}

// DevNATS is where the embedded NATS is served.
type DevNATS struct {
	Listen string `setting:"listen"`
	Admin  bool   `setting:"admin"`
}

// AddDevFlags gives fs a flag for every setting of tarry dev, and --config.
func AddDevFlags(fs *pflag.FlagSet) { addFlags(fs, dev) }

// LoadDev reads all layers, as LoadServe does.
func LoadDev(flags *pflag.FlagSet, environ []string) (Dev, error) {
	l := newLoader(dev)
	return l.dev(l.given(flags, environ, readFile))
}

func (l *loader) dev(ready bool) (Dev, error) {
	var d Dev
	if ready {
		l.fill(&d)
		d.HTTP.Tokens = l.tokens(d.HTTP.Token, d.HTTP.TokensFile)
		d.Topics = l.topics(wire.DefaultPrefix)
		l.checkDev(d)
	}
	if err := l.err(); err != nil {
		return Dev{}, err
	}
	return d, nil
}

// String is the settings as YAML, secrets masked.
func (d Dev) String() string { return describe(&d, dev) }
