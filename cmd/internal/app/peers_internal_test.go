package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// signed writes a certificate and its key, signed by itself or by an authority whose own it returns otherwise.
func signed(t *testing.T, dir, name string, by *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey, string, string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if by == nil {
		by, key = template, own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, &own.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	files := [2]string{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")}
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: der}, {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(files[i], pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, own, files[0], files[1]
}

// Links have TLS where HTTP has it. With an authority for clients, both sides need a certificate of it.
func TestPeers_SpeakTLSWhereHTTPDoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, key, ca, _ := signed(t, dir, "authority", nil, nil)
	_, _, mine, mineKey := signed(t, dir, "mine", authority, key)
	_, _, alien, alienKey := signed(t, dir, "alien", nil, nil)
	own, strange := config.ServerTLS{Cert: mine, Key: mineKey}, config.ServerTLS{Cert: alien, Key: alienKey}
	strict := own
	strict.CA = ca
	for name, c := range map[string]struct {
		leader, standby config.ServerTLS
		works           bool
	}{
		"any certificate":              {strange, own, true},
		"certificates of an authority": {strict, strict, true},
		"a strange standby":            {strict, strange, false},
		"a strange leader":             {strange, strict, false},
	} {
		of := func(files config.ServerTLS) *opened {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			cfg := config.Serve{}
			cfg.HTTP.TLS = files
			return &opened{cfg: cfg, peers: l, address: "host.example:7070", log: zerolog.Nop()}
		}
		leader, err := of(c.leader).peerConfig()
		if err != nil {
			t.Fatal(err)
		}
		standby, err := of(c.standby).peerConfig()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(leader.Listener.Addr().String())
		if want := "host.example:" + port; leader.Address != want {
			t.Errorf("%s: it is reached at %s, want %s", name, leader.Address, want)
		}
		go func() {
			conn, err := leader.Listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			s := tls.Server(conn, leader.Server)
			_, _ = io.CopyN(s, s, 5)
		}()
		conn, err := tls.Dial("tcp", leader.Listener.Addr().String(), standby.Client)
		got := make([]byte, 5)
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(conn, "hello")
			_, err = io.ReadFull(conn, got)
			_ = conn.Close()
		}
		if works := err == nil && string(got) == "hello"; works != c.works {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A port that nobody chose may be taken; one that somebody chose may not.
func TestPeers_APortThatIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:"+config.PeerPort)
	if err == nil {
		t.Cleanup(func() { _ = l.Close() }) // otherwise another one has it
	}
	for listen, works := range map[string]bool{"": true, "off": true, "127.0.0.1:0": true,
		"127.0.0.1:" + config.PeerPort: false} {
		o := &opened{log: zerolog.Nop()}
		o.cfg.HTTP.Listen, o.cfg.Peer.Listen = "127.0.0.1:7070", listen
		if err := o.openPeers(); (err == nil) != works {
			t.Errorf("%q: %v", listen, err)
		}
		if got := o.peers != nil; got != (listen == "127.0.0.1:0") {
			t.Errorf("%q: it listens: %t", listen, got)
		}
		_ = o.Close()
	}
}
