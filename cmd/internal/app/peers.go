package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/cmd/internal/config"
	"github.com/tarry-mq/tarry/election"
)

// openPeers listens for the links of standbys. Where the port that nobody chose is taken, as by a second instance on
// one machine, takeovers wait for the leader's session to expire.
func (o *opened) openPeers() (err error) {
	at := o.cfg.Peer.Listen
	switch at {
	case config.PeerOff:
		return nil
	case "":
		host, _, _ := net.SplitHostPort(o.cfg.HTTP.Listen)
		at = net.JoinHostPort(host, config.PeerPort)
	}
	if o.peers, err = o.listen("peer.listen", at); err != nil && o.cfg.Peer.Listen == "" {
		o.log.Warn().Err(err).Msg("this instance takes part in no fast takeover: set peer.listen")
		return nil
	}
	return err
}

// peerConfig returns where the other instances reach this one: the advertised host, and TLS where HTTP has it.
func (o *opened) peerConfig() (*election.PeerConfig, error) {
	if o.peers == nil {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(o.address)
	_, port, _ := net.SplitHostPort(o.peers.Addr().String())
	server, err := api.NewTLS(api.TLSFiles(o.cfg.HTTP.TLS), o.log)
	if err != nil {
		return nil, err
	}
	p := &election.PeerConfig{Listener: o.peers, Address: net.JoinHostPort(host, port), Server: server}
	if server != nil {
		p.Client = peerClient(server)
	}
	return p, nil
}

// peerClient makes the other side of a link present the certificate of HTTP. Where HTTP has an authority for its
// clients, the leader's certificate must be signed by it. Otherwise any will do: a link carries no secret, and what it
// says decides nothing by itself.
func peerClient(server *tls.Config) *tls.Config {
	now := func() (*tls.Config, error) { return server.GetConfigForClient(nil) }
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c, err := now()
			return &c.Certificates[0], err
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			c, err := now()
			if err != nil || c.ClientCAs == nil {
				return err
			}
			if len(s.PeerCertificates) == 0 {
				return errors.New("the leader has no certificate")
			}
			between := x509.NewCertPool()
			for _, cert := range s.PeerCertificates[1:] {
				between.AddCert(cert)
			}
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.ClientCAs, Intermediates: between})
			return err
		}}
}
