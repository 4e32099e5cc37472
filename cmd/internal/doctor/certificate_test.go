package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/cmd/internal/doctor"
)

// certificate is one that signs itself, as PEM, with its key.
func certificate(t *testing.T, name string, from, until time.Duration) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(
		&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func TestHTTP_WhoseCertificatesCannotBeUsed(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	s := healthy(t)
	dir := t.TempDir()
	put := func(setting, name string, content []byte) {
		t.Helper()
		s[setting] = filepath.Join(dir, name)
		if err := os.WriteFile(s[setting], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	good, key := certificate(t, "good", -day, 90*day)
	_, other := certificate(t, "other", -day, 90*day)
	late, lateKey := certificate(t, "late", -90*day, 20*day+time.Hour)
	over, overKey := certificate(t, "over", -90*day, -day)
	early, earlyKey := certificate(t, "early", day, 90*day)
	for name, c := range map[string]struct {
		cert, key []byte
		status    doctor.Status
		words     []string
	}{
		"good":          {good, key, doctor.OK, []string{"valid until"}},
		"another's key": {good, other, doctor.Fail, []string{"private key does not match", "does not start"}},
		"no certificate": {[]byte("-----BEGIN NOTHING-----"), key, doctor.Fail,
			[]string{"http.tls.cert", "PEM"}},
		"it ends soon":           {late, lateKey, doctor.Warn, []string{"late expires on", "in 20 days", "renew it"}},
		"it has ended":           {over, overKey, doctor.Fail, []string{"over expired on", "renew it"}},
		"it has not begun":       {early, earlyKey, doctor.Fail, []string{"early is not valid before"}},
		"its chain ends soon":    {join(good, late), key, doctor.Warn, []string{"late expires on"}},
		"its chain ended before": {join(good, over), key, doctor.Warn, []string{"over expired on"}},
	} {
		put("HTTP_TLS_CERT", "cert.pem", c.cert)
		put("HTTP_TLS_KEY", "key.pem", c.key)
		t.Log(name)
		d := s.diagnosis(t).has(c.status, "machine", "http certificate", c.words...)
		if c.status != doctor.Fail {
			d.fails()
		} else {
			d.fails("machine http certificate")
		}
	}
	put("HTTP_TLS_CERT", "cert.pem", good)
	put("HTTP_TLS_KEY", "key.pem", key)
	for name, c := range map[string]struct {
		ca     []byte
		status doctor.Status
		words  []string
	}{
		"good":               {join(good, good), doctor.OK, []string{"http.tls.ca is valid until"}},
		"none":               {[]byte("x"), doctor.Fail, []string{"holds no certificate", "does not start"}},
		"one of two ended":   {join(good, over), doctor.Warn, []string{"over expired on", "remove it"}},
		"all ended":          {over, doctor.Fail, []string{"over expired on"}},
		"one of two is late": {join(good, late), doctor.Warn, []string{"late expires on"}},
	} {
		put("HTTP_TLS_CA", "ca.pem", c.ca)
		t.Log(name)
		s.diagnosis(t).has(c.status, "machine", "http client authority", c.words...).has(doctor.OK, "machine",
			"http certificate")
	}
}
