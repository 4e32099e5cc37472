package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

func TestMigrate_SaysWhatTheGoldenFileHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	environ := []string{"TARRY_JOURNAL_DSN=sqlite:" + filepath.Join(dir, "named.db"), "TARRY_NAMESPACE=shop"}
	var b strings.Builder
	for _, c := range []struct {
		environ []string
		args    string
	}{
		{nil, "migrate"},
		{nil, "migrate now"},
		{nil, "migrate --journal.dns sqlite:x"},
		{nil, "migrate --journal.mode sync"},
		{nil, "migrate --journal.dsn nowhere --namespace Shop"},
		{nil, "migrate --journal.dsn sqlite:DIR/journal.db"},
		{nil, "migrate --journal.dsn sqlite:DIR/journal.db"},
		{nil, "migrate --journal.dsn sqlite:DIR/journal.db --namespace shop"},
		{environ, "migrate"},
		{environ, "migrate"},
		{environ, "migrate --journal.dsn sqlite:DIR/journal.db --namespace default"},
	} {
		r := tarry(t, "", c.environ, strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
		for _, pair := range c.environ {
			fmt.Fprintf(&b, "%s ", strings.ReplaceAll(pair, dir, "DIR"))
		}
		r.out, r.err = strings.ReplaceAll(r.out, dir, "DIR"), strings.ReplaceAll(r.err, dir, "DIR")
		b.WriteString(transcript(r, []string{"TARRY_SERVER=http://unused"}, strings.Fields(c.args)))
	}
	golden(t, "migrate.golden", b.String())
}

func TestRebucket_SaysWhatTheGoldenFileHolds(t *testing.T) {
	t.Parallel()
	empty := "--redis.addrs " + lab.SharedRedis(t).Addr + " --namespace nothing-is-here"
	memory := "--journal.mode sync --journal.dsn sqlite:" + t.TempDir() + "/j.db --data " + t.TempDir()
	var b strings.Builder
	for _, args := range []string{
		"rebucket", "rebucket 4 5", "rebucket 0", "rebucket 1025", "rebucket four", "rebucket -4", "rebucket 4 --buckets x",
		"rebucket 4 --store memory " + memory, "rebucket 4 " + empty,
	} {
		r := tarry(t, "", nil, strings.Fields(args)...)
		b.WriteString(transcript(r, []string{"TARRY_SERVER=http://unused"},
			strings.Fields(strings.NewReplacer(empty, "EMPTY", memory, "DIR").Replace(args))))
	}
	golden(t, "rebucket.golden", b.String())
}

func TestMigrate_SucceedsInAllThatStartAtOnce(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "journal.db"), "mariadb": lab.SharedMariaDB(t).Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := make([]ran, 4)
			var all sync.WaitGroup
			for i := range runs {
				all.Go(func() { runs[i] = tarry(t, "", []string{"TARRY_JOURNAL_DSN=" + dsn}, "migrate") })
			}
			all.Wait()
			first := 0
			for _, r := range runs {
				r.want(t, exitDone, "journal schema: ")
				if strings.Contains(r.out, "version 0 → ") {
					first++
				}
				if r.err != "" {
					t.Errorf("it logged %q", r.err)
				}
			}
			if first != 1 {
				t.Errorf("%d of them made the tables", first)
			}
		})
	}
}

func TestMigrate_TellsWhatFailedAndNoPassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	nobody := fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
	server, dir := lab.SharedMariaDB(t), t.TempDir()
	noFile := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(noFile, []byte(strings.Repeat("no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for dsn, want := range map[string]string{
		"me:" + secret + "@tcp(" + nobody + ")/tarry":           "connection refused",
		"me:" + secret + "@tcp(" + server.Addr + ")/tarry":      "Access denied for user 'me'",
		"root@tcp(" + server.Addr + ")/none_" + secret[:4]:      "Unknown database",
		"sqlite:" + filepath.Join(dir, "missing", "journal.db"): "unable to open database file",
		"sqlite:" + noFile: "file is not a database",
	} {
		r := tarry(t, "", []string{"TARRY_JOURNAL_DSN=" + dsn, "TARRY_LOG_LEVEL=trace"}, "migrate").want(t,
			exitFailed, want)
		if strings.Contains(r.out+r.err, secret) {
			t.Errorf("the password shows: %q, %q", r.out, r.err)
		}
		if r.out != "" ||
			!strings.HasPrefix(r.err[strings.LastIndex(strings.TrimSpace(r.err), "\n")+1:], "tarry: journal") {
			t.Errorf("out %q, err %q", r.out, r.err)
		}
	}
	for _, dsn := range []string{
		"mysql://me:" + secret + "@" + nobody + "/tarry",
		"me:" + secret + "@tcp(" + nobody + "/tarry",
		"me:" + secret + "@tcp(" + nobody + ")/tarry?tls=" + secret,
		"me:" + secret + "@tcp(" + nobody + ")/tarry?loc=" + secret,
		"me:" + secret + "@tcp(" + nobody + ")/tarry?timeout=" + secret,
	} {
		for command, settings := range map[string][]string{"migrate": nil, "serve": {"TARRY_JOURNAL_MODE=sync"}} {
			r := tarry(t, "", append(settings, "TARRY_JOURNAL_DSN="+dsn, "TARRY_LOG_LEVEL=trace"), command).
				want(t, exitUsage,
					`journal.dsn: "***" is not of this form (limit: user:password@tcp(host:port)/database`)
			if strings.Contains(r.out+r.err, secret) || r.out != "" {
				t.Errorf("%s: the password shows: %q, %q", command, r.out, r.err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out printed
	code := run(ctx, []string{"migrate", "--journal.dsn", server.Database(t)},
		outside{out: &out, err: &out, now: time.Now, zone: time.UTC})
	if code != exitFailed || out.String() != "tarry: interrupted\n" {
		t.Errorf("got %d %q", code, out.String())
	}
}
