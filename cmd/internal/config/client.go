package config

import (
	"cmp"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Client are the settings of the commands that call an instance, checked.
type Client struct {
	Server  string        `setting:"server"` // may end in "/"
	Token   Secret        `setting:"token"`
	JSON    bool          `setting:"json"`
	Timeout time.Duration `setting:"timeout"`
	TLS     ClientTLS     `setting:"tls"`
}

// ClientTLS says how an https server is checked, and what is shown to it. All may be empty; Cert and Key are both set
// or both empty.
type ClientTLS struct {
	CA         string `setting:"ca"`
	Cert       string `setting:"cert"`
	Key        string `setting:"key"`
	ServerName string `setting:"server_name"`
}

// Config reads the certificates; nil where nothing is set.
func (c ClientTLS) Config() (*tls.Config, error) {
	made, err := TLS{CA: c.CA, Cert: c.Cert, Key: c.Key}.Client("tls")
	if err != nil || c.ServerName == "" {
		return made, err
	}
	if made == nil {
		made = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	made.ServerName = c.ServerName
	return made, nil
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
		l.both("tls.cert", "tls.key")
		l.both("tls.key", "tls.cert")
	}
	if err := l.err(); err != nil {
		return Client{}, err
	}
	if _, given := l.source["server"]; !given {
		c.Server = l.nearby.server(c.Server)
	}
	c.Server = withScheme(c.Server)
	return c, nil
}

// String is the settings as YAML, secrets masked.
func (c Client) String() string { return describe(&c, client) }

// nearby is what the settings of tarry serve, in the environment or the file, say of an instance on this machine: a
// client command asks there unless a server is named.
type nearby struct {
	listen string
	secure bool // it serves HTTPS
}

// learn takes a setting of tarry serve. The environment is read first, and wins.
func (n *nearby) learn(name, text string) {
	switch name {
	case "http.listen":
		n.listen = cmp.Or(n.listen, text)
	case "http.tls.cert":
		n.secure = n.secure || text != ""
	}
}

// server is the address to ask: otherwise where the settings do not say where the instance listens, as with port 0.
func (n *nearby) server(otherwise string) string {
	if listenAddress().check(n.listen) == "" && !strings.HasSuffix(n.listen, ":0") {
		otherwise = "http://" + ownAddress(n.listen)
	}
	if n.secure {
		otherwise = "https://" + strings.TrimPrefix(otherwise, "http://")
	}
	return otherwise
}

// ownAddress is where a server that listens like this is reached from its own machine.
func ownAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return listen
}
