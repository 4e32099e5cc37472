//go:build clients

package e2e_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A client of camellia-delay-queue, in Java and written from its page, works against two instances. The leader dies in
// the middle.
func TestCamelliasClient(t *testing.T) {
	s := site.New(t, site.Options{})
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	err := os.WriteFile(tokens, fmt.Appendf(nil,
		"tokens: [{name: old, sha256: '%x', push: ['>'], pull: ['>'], read: true}]",
		sha256.Sum256([]byte(site.HTTPToken+"-of-camellia"))), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"testdata/Camellia.java"}
	for _, name := range []string{"a", "b"} {
		listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t)))
		s.Start(name, "TARRY_HTTP_TOKENS_FILE="+tokens, "TARRY_SEEDS_LISTEN="+listen, "TARRY_SEEDS_TOKEN=old")
		args = append(args, "http://"+listen)
	}
	leader, _ := s.Leader(0, s.Instances...)
	cmd := exec.CommandContext(t.Context(), "java", args...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if said += lines.Text() + " "; lines.Text() == "half" {
			leader.Kill()
		}
	}
	if err := cmd.Wait(); err != nil || said != "half all " {
		t.Errorf("the client says %q and ends with %v", said, err)
	}
}
