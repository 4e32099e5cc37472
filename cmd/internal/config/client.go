package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Client are the settings of the commands that call an instance, checked.
type Client struct {
	// HTTP address of an instance, or of a proxy in front of several; if it is not set and the environment or the file
	// has http.listen of tarry serve, that address, by https if http.tls.cert is set
	Server string `setting:"server" default:"http://127.0.0.1:7070" limit:"web url"`
	// the http.token of that instance
	Token Secret    `setting:"token" limit:"token 1"`
	TLS   ClientTLS `setting:"tls"`
	// name that the server's certificate must have, if that is not the host in server
	ServerName string `setting:"tls.server_name" limit:"host"`
	// print JSON for machines
	JSON bool `setting:"json" default:"false"`
	// how long one call may take
	Timeout time.Duration `setting:"timeout" default:"10s" limit:"100ms..10m"`
}

// ClientTLS says how an https server is verified, and which certificate is presented to it. All may be empty; Cert and
// Key are both set or both empty.
type ClientTLS struct {
	// PEM file of the authority of the https server's certificate, in place of the system's
	CA string `setting:"ca" limit:"file"`
	// PEM file of the certificate to present to a server that asks for one; needs tls.key
	Cert string `setting:"cert" limit:"file"`
	// PEM file of the certificate's key
	Key string `setting:"key" limit:"file"`
}

// Config reads the certificates; it returns nil if none is set.
func (c Client) Config() (*tls.Config, error) {
	made, err := TLS(c.TLS).Client("tls")
	if err != nil || c.ServerName == "" {
		return made, err
	}
	made = cmp.Or(made, &tls.Config{MinVersion: tls.VersionTLS12})
	made.ServerName = c.ServerName
	return made, nil
}

// AddClientFlags gives fs a flag for every setting of the client commands, and --config.
func AddClientFlags(fs *pflag.FlagSet) { addFlags(fs, client) }

// LoadClient reads all layers, as LoadServe does.
func LoadClient(flags *pflag.FlagSet, environ []string) (Client, error) {
	l := newLoader(client)
	return l.client(l.given(flags, environ))
}

func (l *loader) client(ready bool) (Client, error) {
	var c Client
	if ready {
		l.fill(&c)
		l.together("tls.cert", "tls.key")
	}
	if err := l.err(); err != nil {
		return Client{}, err
	}
	if l.source("server") == "" {
		c.Server = l.nearby(c.Server)
		// What tarry serve would refuse is not its token.
		if given, _ := l.merged["http.token"].(string); c.Token == "" && token(16, 512).check(given) == "" {
			c.Token = Secret(given)
		}
	}
	c.Server = withScheme(c.Server)
	return c, nil
}

// nearby returns the address of an instance on this machine, from the settings of tarry serve in the environment or the
// file. A client command uses it unless a server is set. If those settings do not determine the address, as with port
// 0, the default applies.
func (l *loader) nearby(otherwise string) string {
	listen, _ := l.merged["http.listen"].(string)
	if listenAddress().check(listen) == "" && !strings.HasSuffix(listen, ":0") {
		otherwise = "http://" + reached(listen, "127.0.0.1")
	}
	if cert, _ := l.merged["http.tls.cert"].(string); cert != "" {
		otherwise = "https://" + strings.TrimPrefix(otherwise, "http://")
	}
	return otherwise
}

// Client reads the certificates that a connection to a server uses; nil where none are set. name is the setting's, for
// errors.
func (files TLS) Client(name string) (*tls.Config, error) {
	if files == (TLS{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		pem, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, fmt.Errorf("read %s.ca: %w", name, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read %s.ca: %q holds no certificate in PEM form", name, files.CA)
		}
	}
	if files.Cert != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("read %[1]s.cert and %[1]s.key: %[2]w", name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
