package topology

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// TestThePairThatOperationsBringsUpByHand runs the settings files and the SQL of docs/operations.md as they stand, but
// for the addresses. The servers are this machine's.
func TestThePairThatOperationsBringsUpByHand(t *testing.T) {
	t.Parallel()
	page := inDeploy(t, "../docs/operations.md")
	db, zk := lab.NewMariaDB(t), lab.NewZooKeeper(t)
	_, sql, found := strings.Cut(page, `mariadb -e "`)
	sql, _, _ = strings.Cut(sql, `"`)
	if !found {
		t.Fatal("the page has no SQL")
	}
	for statement := range strings.SplitSeq(sql, ";") {
		if _, err := db.SQL("", statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	here := map[string]string{"6379": lab.NewRedis(t).Addr, "2181": zk.Addr, "4222": lab.NewNATS(t).Addr, "3306": db.Addr}
	for _, port := range []string{"7070", "7071", "7080", "7081"} {
		here[port] = net.JoinHostPort("127.0.0.1", strconv.Itoa(lab.FreePort(t)))
	}
	bin, files := program(t), map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```yaml\ninstance: ([ab])\n.*?```").FindAllStringSubmatch(page, -1) {
		text := strings.TrimSuffix(strings.TrimPrefix(m[0], "```yaml\n"), "```")
		for port, addr := range here {
			text = strings.ReplaceAll(text, "127.0.0.1:"+port, addr)
		}
		files[m[1]] = filepath.Join(t.TempDir(), m[1]+".yaml")
		if err := os.WriteFile(files[m[1]], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		lab.Start(t, "tarry-"+m[1], nil, bin, "serve", "--config", files[m[1]])
	}
	if len(files) != 2 {
		t.Fatalf("the page has %d files", len(files))
	}
	tarry := func(args ...string) (string, error) {
		p := lab.Start(t, "tarry", []string{"TARRY_TOKEN=change-this-token"}, bin, args...)
		if code := p.Wait(time.Minute); code != 0 {
			return "", fmt.Errorf("tarry %s: exit code %d: %s", strings.Join(args, " "), code, p.Log())
		}
		return p.Log(), nil
	}
	lab.Eventually(t, time.Minute, func() error {
		out, err := tarry("cluster", "--config", files["b"])
		if err == nil && (!strings.Contains(out, "standby, linked") || !strings.Contains(out, "journal sync, up to date")) {
			err = fmt.Errorf("not there yet: %s", out)
		}
		return err
	})
	if out, err := tarry("doctor", "--config", files["a"]); err != nil {
		t.Errorf("doctor: %v %s", err, out)
	}
}
