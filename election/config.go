package election

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// DefaultSession is the session time-out requested if the config sets none.
	DefaultSession = 6 * time.Second

	minSession = 500 * time.Millisecond
	maxSession = 5 * time.Minute
	maxAddress = 256
	maxVersion = 128
	maxTold    = 4096
)

// nameRule restricts a namespace or an instance to one plain path component.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// NodeConfig configures a node.
type NodeConfig struct {
	Servers   []string // host:port; resolved at every dial
	Namespace string   // everything lives under /tarry/<namespace>
	Instance  string   // unique among live instances of the namespace
	Address   string   // where other instances reach this one; shown to them
	Version   string   // shown to other instances

	// Session is the requested time-out. The server may grant another, which then applies.
	Session time.Duration

	// Healthy decides whether this instance stands, and its answer is shown to other instances. It is called about
	// every S/12 and must answer from memory. If nil, the instance is always healthy.
	Healthy func() error

	// Store returns the name of the store that this instance keeps messages in; it is shown to other instances. A nil
	// Store or an empty name means unknown.
	Store func() string

	// Tell returns what else other instances are shown. It must answer from memory. An instance without Tell says
	// nothing, and is not missed when it is gone.
	Tell func() Told

	// Username and Password are a ZooKeeper digest, sent in clear text. If set, only their holder may read or write the
	// znodes.
	Username, Password string

	// Peers, if set, is where other instances reach this one, for fast takeovers.
	Peers *PeerConfig

	Log        zerolog.Logger
	Registerer prometheus.Registerer
}

// complete fills in defaults and rejects invalid values field by field.
func (c NodeConfig) complete() (NodeConfig, error) {
	if c.Session == 0 {
		c.Session = DefaultSession
	}
	if c.Healthy == nil {
		c.Healthy = func() error { return nil }
	}
	if c.Store == nil {
		c.Store = func() string { return "" }
	}
	if len(c.Servers) == 0 {
		return c, errors.New("servers: at least one is needed")
	}
	if err := checkName("namespace", c.Namespace); err != nil {
		return c, err
	}
	if err := checkMember(c.Instance, c.Address, c.Version); err != nil {
		return c, err
	}
	if c.Session < minSession || c.Session > maxSession {
		return c, fmt.Errorf("session: %v is outside %v to %v", c.Session, minSession, maxSession)
	}
	if (c.Username == "") != (c.Password == "") {
		return c, errors.New("username and password: one is set without the other")
	}
	if strings.Contains(c.Username, ":") {
		return c, errors.New("username: must not contain a colon")
	}
	return c, nil
}

func checkName(field, name string) error {
	if !nameRule.MatchString(name) {
		return fmt.Errorf(
			"%s: %.150q is not 1 to 128 letters, digits or ._:- starting with a letter or digit", field, name)
	}
	return nil
}

func checkMember(instance, address, version string) error {
	if err := checkName("instance", instance); err != nil {
		return err
	}
	if len(address) > maxAddress {
		return fmt.Errorf("address: %d bytes, at most %d", len(address), maxAddress)
	}
	if len(version) > maxVersion {
		return fmt.Errorf("version: %d bytes, at most %d", len(version), maxVersion)
	}
	return nil
}

// timing is the session time-out that the server granted, and all times derived from it. See "Trust window".
type timing time.Duration

func (t timing) session() time.Duration  { return time.Duration(t) }
func (t timing) lease() time.Duration    { return time.Duration(t) / 2 }
func (t timing) silence() time.Duration  { return time.Duration(t) / 3 }
func (t timing) call() time.Duration     { return time.Duration(t) / 3 }
func (t timing) floor() time.Duration    { return time.Duration(t) / 4 } // below silence: no answers come meanwhile
func (t timing) renewal() time.Duration  { return time.Duration(t) / 6 }
func (t timing) retry() time.Duration    { return time.Duration(t) / 6 }
func (t timing) patience() time.Duration { return time.Duration(t) * 2 }
func (t timing) check() time.Duration    { return time.Duration(t) / 12 }
