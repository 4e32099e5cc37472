package election

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func credentials(t *testing.T, servers []string) {
	c := &court{}
	with := func(password string) func(*setup) {
		return func(cfg *setup) { cfg.Username, cfg.Password = "tarry", password }
	}
	p := lab.NewProxy(t, servers[0])
	a := real(t, c, "locked", "a", []string{p.Addr}, with("secret"), func(cfg *setup) {
		cfg.Session = longSession
	}).run(t)
	first := awaitLeader(t, c, 0)

	stranger := plain(t, servers)
	for _, path := range []string{"", "/leader", "/term", "/instances/a"} {
		if _, _, err := stranger.Get("/tarry/locked" + path); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger reads %q: %v, want ErrNoAuth", path, err)
		}
	}
	b := real(t, c, "locked", "b", servers, with("guess")).run(t)
	lab.Eventually(t, patience, func() error {
		if s := b.State(); !errors.Is(s.Err, zk.ErrNoAuth) {
			return fmt.Errorf("with a wrong password: %+v", s)
		}
		return nil
	})
	for range 3 { // each connection brings the credentials again
		at := time.Now()
		p.Cut()
		p.Heal()
		awaitRenewal(t, first, at)
	}
	if first.ctx.Err() != nil {
		t.Error("leadership was lost with the connection")
	}
	awaitReady(t, a)
}

func overTLS(t *testing.T, servers []string) {
	c := &court{}
	addr, roots := terminator(t, servers[0])
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	real(t, c, "tls", "a", []string{"localhost:" + port}, func(cfg *setup) {
		cfg.TLS = &tls.Config{RootCAs: roots}
	}).run(t)
	awaitLeader(t, c, 0)

	b := real(t, c, "tls", "b", []string{"localhost:" + port}, func(cfg *setup) {
		cfg.TLS = &tls.Config{} // does not know the authority
	}).run(t)
	lab.Eventually(t, patience, func() error {
		var unknown x509.UnknownAuthorityError
		if s := b.State(); !errors.As(s.Err, &unknown) {
			return fmt.Errorf("with an unknown authority: %+v", s)
		}
		return nil
	})
}

// terminator takes TLS connections for the name localhost and passes them on in clear, as a server with TLS would.
func terminator(t *testing.T, target string) (addr string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { splice(in, target) })
		}
	})
	return l.Addr().String(), roots
}

// splice passes bytes both ways until one side ends.
func splice(in net.Conn, target string) {
	defer in.Close()
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	done := make(chan struct{})
	go func() { // ends with the connections, awaited below
		defer close(done)
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
	_ = in.Close()
	<-done
}
