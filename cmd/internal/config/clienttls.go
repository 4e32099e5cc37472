package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

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
