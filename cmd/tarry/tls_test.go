package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
)

// The commands, and the health check of the image among them, reach a server whose certificate no system knows, and one
// that asks for a certificate.
func TestTLS_CommandsReachAServerWithACertificateOfItsOwn(t *testing.T) {
	t.Parallel()
	instance, err := api.New(
		api.Config{Config: ops.Config{Service: scripted{}, Cluster: fixedCluster{}},
			Gatherer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]tls.ClientAuthType{"with a certificate": tls.NoClientCert,
		"asking for one": tls.RequireAnyClientCert} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(instance)
			server.TLS = &tls.Config{ClientAuth: ask}
			server.StartTLS()
			t.Cleanup(server.Close)
			dir := t.TempDir()
			save := func(file, kind string, der []byte) string {
				path := filepath.Join(dir, file)
				err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
				if err != nil {
					t.Fatal(err)
				}
				return path
			}
			key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
			if err != nil {
				t.Fatal(err)
			}
			ca, keyFile := save("ca.pem", "CERTIFICATE", server.Certificate().Raw), save("key.pem", "PRIVATE KEY", key)
			at := "TARRY_SERVER=" + server.URL
			tarry(t, "", []string{at}, "health").want(t, exitFailed, "certificate")
			environ := []string{at, "TARRY_TLS_CA=" + ca}
			if ask != tls.NoClientCert {
				tarry(t, "", environ, "health").want(t, exitFailed, "certificate required")
				environ = append(environ, "TARRY_TLS_CERT="+ca, "TARRY_TLS_KEY="+keyFile)
			}
			tarry(t, "", environ, "health").want(t, exitDone, "ready")
			tarry(t, "", environ, "get", "order-7131").want(t, exitDone, "orders.remind")
			tarry(t, "", environ, "get", "order-7131", "--tls.server_name", "example.com").want(t, exitDone,
				"orders.remind")
			tarry(t, "", environ, "get", "order-7131", "--tls.server_name", "other.example").want(t, exitFailed,
				"other.example")
			tarry(t, "", environ, "get", "order-7131", "--tls.ca", keyFile).want(t, exitUsage,
				"holds no certificate in PEM form")
			tarry(t, "", []string{at, "TARRY_TLS_CERT=" + ca}, "health").want(t, exitUsage, "tls.cert")
			// Beside the instance its own settings say where it listens, and how.
			file := filepath.Join(dir, "tarry.yaml")
			settings := fmt.Sprintf("http: {listen: %q, tls: {cert: %s, key: %s}}\n",
				server.Listener.Addr(), ca, keyFile)
			if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			tarry(t, "", append(environ[1:], "TARRY_CONFIG="+file), "health").want(t, exitDone, "ready")
		})
	}
}
