package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// certificateWarn is how long before a certificate expires the doctor warns.
const certificateWarn = 30 * 24 * time.Hour

// certificates looks at the files of http.tls, as tarry serve reads them.
func (p *patient) certificates(n *notes) {
	files := p.cfg.HTTP.TLS
	if files.Cert == "" {
		return
	}
	const name = "http certificate"
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	var chain []*x509.Certificate
	if err == nil {
		chain, err = parsed(pair.Certificate)
	}
	if err != nil {
		n.broken(name, fmt.Errorf("http.tls.cert and http.tls.key: %w", err), "put the certificate, "+
			"followed by its chain, and its key into these files, in PEM form: tarry serve does not start with these")
	} else {
		aged(n, name, "http.tls.cert", chain[0], chain, "renew it: clients refuse a server without a valid "+
			"certificate; tarry serve reads the new files by itself")
	}
	if files.CA == "" {
		return
	}
	const authority = "http client authority"
	known, err := authorities(files.CA)
	if err != nil {
		n.broken(authority, fmt.Errorf("http.tls.ca: %w", err),
			"put the authorities of the clients' certificates into this file, in PEM form: tarry serve does not start "+
				"with this")
		return
	}
	last := slices.MaxFunc(known, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	aged(n, authority, "http.tls.ca", last, known,
		"renew it, or remove it: no client whose certificate it signed is accepted")
}

// aged judges the certificates of a file: by the certificate that all others need, and by the first to expire.
func aged(n *notes, name, setting string, vital *x509.Certificate, all []*x509.Certificate, change string) {
	now := time.Now()
	first := slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	switch left := first.NotAfter.Sub(now); {
	case now.Before(vital.NotBefore):
		n.fail(name, fmt.Sprintf("%s: %s is not valid before %s", setting, vital.Subject, day(vital.NotBefore)),
			"set the clock right, or use a certificate that is valid")
	case now.After(vital.NotAfter):
		n.fail(name, fmt.Sprintf("%s: %s expired on %s", setting, vital.Subject, day(vital.NotAfter)), change)
	case left <= 0:
		n.warn(name, fmt.Sprintf("%s: %s expired on %s", setting, first.Subject, day(first.NotAfter)), change)
	case left < certificateWarn:
		n.warn(name, fmt.Sprintf("%s: %s expires on %s, in %s", setting, first.Subject, day(first.NotAfter),
			plural(int(left.Hours()/24), "day")), change)
	default:
		n.ok(name, "%s is valid until %s", setting, day(first.NotAfter))
	}
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func parsed(all [][]byte) ([]*x509.Certificate, error) {
	certificates := make([]*x509.Certificate, len(all))
	for i, der := range all {
		var err error
		if certificates[i], err = x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("certificate %d of %d: %w", i+1, len(all), err)
		}
	}
	return certificates, nil
}

// authorities returns the certificates of a PEM file, at least one.
func authorities(path string) ([]*x509.Certificate, error) {
	rest, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the file holds no certificate in PEM form")
	}
	return parsed(all)
}
