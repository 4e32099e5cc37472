package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// TLSFiles are the PEM files of http.tls. With CA, a client must present a certificate signed by one of its
// authorities.
type TLSFiles struct{ Cert, Key, CA string }

// tlsLook is the minimum time between two checks of the files.
const tlsLook = time.Second

// NewTLS reads the files and returns the configuration for Config.TLS, or nil if no file is named. When a file changes,
// all files are read again for the next connection; if they are unusable, NewTLS's configuration keeps the previous
// certificate and logs the error.
func NewTLS(files TLSFiles, log zerolog.Logger) (*tls.Config, error) {
	if files == (TLSFiles{}) {
		return nil, nil
	}
	c := &certificates{files: files, log: log}
	c.stand = c.look()
	var err error
	if c.current, err = c.load(); err != nil {
		return nil, err
	}
	outer := c.current.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now(time.Now()), nil }
	return outer, nil
}

// certificates holds the files as last read.
type certificates struct {
	files TLSFiles
	log   zerolog.Logger

	mu      sync.Mutex
	looked  time.Time
	stand   tlsStand // of the files, when they were last read
	current *tls.Config
}

// tlsStand identifies the state of the files, to detect changes.
type tlsStand [3]struct {
	at   time.Time
	size int64
}

func (c *certificates) look() (stand tlsStand) {
	for i, path := range [...]string{c.files.Cert, c.files.Key, c.files.CA} {
		if info, err := os.Stat(path); err == nil && path != "" {
			stand[i].at, stand[i].size = info.ModTime(), info.Size()
		}
	}
	return stand
}

// now returns the configuration for a new connection.
func (c *certificates) now(at time.Time) *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Sub(c.looked) < tlsLook {
		return c.current
	}
	c.looked = at
	// The state is recorded before the files are read, so that the next check sees a change made meanwhile.
	stand := c.look()
	if stand == c.stand {
		return c.current
	}
	c.stand = stand
	next, err := c.load()
	if err != nil {
		c.log.Warn().Err(err).Msg(
			"the certificate of http has changed and cannot be used; going on with the one before")
		return c.current
	}
	c.current = next
	return next
}

// load reads the files. It offers only HTTP/1.1, for which the limits of connections and time-outs are designed.
func (c *certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, fmt.Errorf("read http.tls.cert %q and http.tls.key %q: %w", c.files.Cert, c.files.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{pair}}
	if c.files.CA != "" {
		text, err := os.ReadFile(c.files.CA)
		if err != nil {
			return nil, fmt.Errorf("read http.tls.ca: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read http.tls.ca %q: %w", c.files.CA,
				errors.New("it contains no PEM certificate"))
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session must not outlive the authority that admitted it.
		config.SessionTicketsDisabled = true
	}
	c.log.Info().Time("until", pair.Leaf.NotAfter).Str("subject", pair.Leaf.Subject.String()).Msg(
		"certificate of http read")
	return config, nil
}
