package api_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/api"
)

// authority signs certificates of tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert, a.key, a.pem = certify(t, template, nil)
	return a
}

// certify signs a certificate, by itself where there is no authority.
func certify(t testing.TB, template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// issue makes a certificate for the name, as PEM.
func (a *authority) issue(t testing.TB, name string, serial int64) (cert, key []byte) {
	t.Helper()
	_, private, cert := certify(t, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a)
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// put writes a file so that its time differs from what was there.
func put(t testing.TB, path string, content []byte) {
	t.Helper()
	before, _ := os.Stat(path)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if before != nil {
		if err := os.Chtimes(path, time.Time{}, before.ModTime().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
}

// site is a door that speaks TLS.
type site struct {
	*door
	address string
	files   api.TLSFiles
	server  *authority
}

func secure(t *testing.T, ca []byte, change ...func(*api.Config)) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{server: newAuthority(t, "server authority"),
		files: api.TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}}
	cert, key := s.server.issue(t, "one", 1)
	put(t, s.files.Cert, cert)
	put(t, s.files.Key, key)
	if ca != nil {
		s.files.CA = filepath.Join(dir, "ca.pem")
		put(t, s.files.CA, ca)
	}
	s.door = open(t, append(change, func(c *api.Config) {
		var err error
		if c.TLS, err = api.NewTLS(s.files, c.Log); err != nil {
			t.Fatal(err)
		}
	})...)
	s.address, _ = run(t, s.door)
	return s
}

// visit makes a request on its own connection and returns whose certificate was presented.
func (s *site) visit(t testing.TB, change func(*tls.Config)) (string, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(s.server.cert)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10}
	if change != nil {
		change(config)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true,
		ForceAttemptHTTP2: true}, Timeout: 5 * time.Second}
	r, err := client.Get("https://" + s.address + "/livez")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 || r.ProtoMajor != 1 {
		return "", errors.New(r.Proto + " " + r.Status + string(body))
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName, nil
}

func TestTLS_IsSpokenFrom12OnAndNothingElseIs(t *testing.T) {
	t.Parallel()
	s := secure(t, nil)
	for version, fine := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true,
		tls.VersionTLS13: true} {
		_, err := s.visit(t, func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version })
		if (err == nil) != fine {
			t.Errorf("%s: got %v", tls.VersionName(version), err)
		}
	}
	if _, err := s.visit(t, func(c *tls.Config) { c.RootCAs = x509.NewCertPool() }); err == nil {
		t.Error("the certificate passes for anybody's")
	}
	if r, err := http.Get("http://" + s.address + "/livez"); err == nil {
		_ = r.Body.Close()
		if r.StatusCode != 400 {
			t.Errorf("in the clear: got %s", r.Status)
		}
	}
}

func TestTLS_AHandshakeThatNeverEndsIsCutOff(t *testing.T) {
	t.Parallel()
	s := secure(t, nil, func(c *api.Config) { c.HeaderTimeout, c.ReadTimeout = 300*time.Millisecond, time.Minute })
	for _, begun := range []string{"", "\x16", "\x16\x03\x01\x02\x00\x01"} {
		conn := dial(t, s.address)
		if _, err := io.WriteString(conn, begun); err != nil {
			t.Fatal(err)
		}
		if !eventuallyClosed(conn) {
			t.Errorf("after %q the connection stays open", begun)
		}
	}
}

func TestTLS_ACertificateThatChangesIsShownToTheNextClient(t *testing.T) {
	t.Parallel()
	s := secure(t, nil)
	name, err := s.visit(t, nil)
	if err != nil || name != "one" {
		t.Fatalf("got %q, %v", name, err)
	}
	// Half of a change, as a client may meet it: the old certificate stands.
	cert, key := s.server.issue(t, "two", 2)
	put(t, s.files.Cert, cert)
	eventually(t, func() error {
		if name, err := s.visit(t, nil); err != nil || name != "one" {
			t.Fatalf("between: got %q, %v", name, err)
		}
		if !strings.Contains(s.log.String(), "cannot be used; going on with the one before") {
			return errors.New("nothing is said of it")
		}
		return nil
	})
	put(t, s.files.Key, key)
	eventually(t, func() error {
		if name, err = s.visit(t, nil); err == nil && name != "two" {
			err = errors.New("still " + name)
		}
		return err
	})
	// Files that go away change nothing.
	for _, path := range []string{s.files.Cert, s.files.Key} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	<-time.After(1100 * time.Millisecond)
	if name, err := s.visit(t, nil); err != nil || name != "two" {
		t.Errorf("without files: got %q, %v", name, err)
	}
	if n := strings.Count(s.log.String(), "cannot be used"); n != 2 {
		t.Errorf("%d warnings", n)
	}
	if strings.Contains(s.log.String(), "PRIVATE") || bytes.Contains([]byte(s.log.String()), key[40:80]) {
		t.Error("a key is in the log")
	}
}

func TestTLS_WithAnAuthorityClientsShowACertificateOfIt(t *testing.T) {
	t.Parallel()
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	s := secure(t, first.pem)
	by := func(a *authority) func(*tls.Config) {
		cert, key := a.issue(t, "client", 7)
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return func(c *tls.Config) {
			// Not Certificates: a client would keep one back that the server does not ask for.
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			c.ClientSessionCache = tls.NewLRUClientSessionCache(8)
		}
	}
	one, two := by(first), by(second)
	if _, err := s.visit(t, nil); err == nil {
		t.Error("a client without a certificate is let in")
	}
	if _, err := s.visit(t, one); err != nil {
		t.Error(err)
	}
	if _, err := s.visit(t, two); err == nil {
		t.Error("a client of another authority is let in")
	}
	put(t, s.files.CA, second.pem)
	eventually(t, func() error {
		_, err := s.visit(t, two)
		return err
	})
	if _, err := s.visit(t, one); err == nil {
		t.Error("a client of the authority that is no more is let in")
	}
}

func TestNewTLS_RefusesWhatCannotWorkByName(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "a")
	cert, key := a.issue(t, "one", 1)
	_, other := a.issue(t, "two", 2)
	dir := t.TempDir()
	path := func(name string, content []byte) string {
		p := filepath.Join(dir, name)
		put(t, p, content)
		return p
	}
	good := api.TLSFiles{Cert: path("cert", cert), Key: path("key", key), CA: path("ca", a.pem)}
	if c, err := api.NewTLS(good, zerolog.Nop()); err != nil || c == nil {
		t.Errorf("got %v, %v", c, err)
	}
	if c, err := api.NewTLS(api.TLSFiles{}, zerolog.Nop()); err != nil || c != nil {
		t.Errorf("without files: got %v, %v", c, err)
	}
	for want, files := range map[string]api.TLSFiles{
		"http.tls.key":                {Cert: good.Cert, Key: path("other", other)},
		"http.tls.cert":               {Cert: filepath.Join(dir, "none"), Key: good.Key},
		"http.tls.ca":                 {Cert: good.Cert, Key: good.Key, CA: filepath.Join(dir, "none")},
		"contains no PEM certificate": {Cert: good.Cert, Key: good.Key, CA: good.Key},
	} {
		if _, err := api.NewTLS(files, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%+v: got %v, want %s", files, err, want)
		}
	}
}
