package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// wellServed are the settings of an instance on servers that are good but for ZooKeeper, which stands alone.
func wellServed(t *testing.T, name string) []string {
	t.Helper()
	return []string{
		"TARRY_NAMESPACE=" + name, "TARRY_NATS_PREFIX=" + name, "TARRY_INSTANCE=one",
		"TARRY_REDIS_ADDRS=" + lab.SharedRedis(t).Addr,
		"TARRY_NATS_URL=" + lab.SharedNATS(t).URL(), "TARRY_ZOOKEEPER_SERVERS=" + lab.SharedZooKeeper(t).Addr,
		"TARRY_JOURNAL_MODE=sync", "TARRY_JOURNAL_DSN=" + lab.SharedMariaDB(t).Database(t), "TARRY_LOG_LEVEL=error",
	}
}

func TestDoctor_ExitsByWhatItFound(t *testing.T) {
	t.Parallel()
	good := wellServed(t, "doctor-exit")
	warned := func(r ran) string { // of ZooKeeper, and of its latency where this machine is busy
		busy := strings.Count(r.out, "WARN  latency")
		return fmt.Sprintf("0 failed, %d warning", 1+busy)
	}
	r := tarry(t, "", good, "doctor")
	r.want(t, exitDone, warned(r))
	r = tarry(t, "", good, "doctor", "--strict")
	r.want(t, exitFailed, "tarry: "+warned(r))
	sick := append(good, "TARRY_REDIS_PASSWORD=hunter2hunter2", "TARRY_BUCKETS=4", "TARRY_REDIS_DB=99")
	r = tarry(t, "", sick, "doctor").want(t, exitFailed, "FAIL  reachable")
	if strings.Contains(r.out+r.err, "hunter2") {
		t.Errorf("the password shows in %q %q", r.out, r.err)
	}
	tarry(t, "", good, "doctor", "--buckets", "0").want(t, exitUsage, "buckets")
	tarry(t, "", good, "doctor", "--timeout", "0s").want(t, exitUsage, "--timeout")
	tarry(t, "", good, "doctor", "now").want(t, exitUsage, "no argument")
}

func TestDoctor_TellsMachinesTheSame(t *testing.T) {
	t.Parallel()
	for _, strict := range []string{"--strict=false", "--strict"} {
		r := tarry(t, "", wellServed(t, "doctor-json"), "doctor", "--json", strict)
		var report struct {
			Failed, Warnings, OK, Unknown int
			Checks                        []struct{ Group, Target, Name, Status, Found, Change string }
		}
		d := json.NewDecoder(strings.NewReader(r.out))
		if err := d.Decode(&report); err != nil || d.More() {
			t.Fatalf("%v in %q", err, r.out)
		}
		counts, alone := map[string]int{}, 0
		for _, c := range report.Checks {
			if c.Status == "warn" && c.Name == "ensemble" {
				alone++
			}
			if counts[c.Status]++; c.Status == "warn" && c.Name != "ensemble" && c.Name != "latency" {
				t.Errorf("nothing is amiss, but that this machine may be busy, and it warns of %+v", c)
			}
			if c.Group == "" || c.Name == "" || c.Found == "" {
				t.Errorf("an empty field in %+v", c)
			}
		}
		if report.Failed != 0 || alone != 1 || counts["warn"] != report.Warnings ||
			counts["ok"] != report.OK ||
			counts["unknown"] != report.Unknown || report.OK < 20 {
			t.Errorf("got %+v and %v", report, counts)
		}
	}
}

// Beside an instance that works it finds nothing wrong, and leaves everything as it was.
func TestDoctor_LeavesARunningInstanceAlone(t *testing.T) {
	t.Parallel()
	at := fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
	environ := append(wellServed(t, "doctor-beside"), "TARRY_HTTP_LISTEN="+at)
	ctx, stop := context.WithCancel(t.Context())
	var log printed
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"serve"},
			outside{out: &log, err: &log, environ: environ, now: time.Now, zone: time.UTC})
	}()
	defer func() {
		stop()
		if code := <-done; code != exitDone {
			t.Errorf("serve ended with %d: %s", code, log.String())
		}
	}()
	lab.Eventually(t, 30*time.Second, func() error {
		r, err := http.Get("http://" + at + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d, log %s", r.StatusCode, log.String())
		}
		return nil
	})
	tarry(t, "", []string{"TARRY_SERVER=http://" + at}, "push", "orders.remind", "--delay", "1h").want(t, exitDone, "")
	var before string
	lab.Eventually(t, 10*time.Second, func() error { // the instance itself goes on until the journal has the push
		if before = traces(t, "doctor-beside"); strings.Contains(before, ":outboxed") {
			return fmt.Errorf("the journal does not have the push: %s", before)
		}
		return nil
	})
	lab.Eventually(t, 10*time.Second, func() error { // it announces once a second what has changed
		r := tarry(t, "", []string{"TARRY_SERVER=http://" + at}, "cluster")
		if !strings.Contains(r.out, "ready") || strings.Contains(r.out, "not ready") || strings.Contains(r.out, "degraded") {
			return fmt.Errorf("cluster says %s", r.out)
		}
		return nil
	})
	r := tarry(t, "", environ, "doctor").want(t, exitDone, "one is running, at "+at)
	for _, want := range []string{"1 registered and reached", "as the setting says", "work queue on file",
		"anybody who can reach ZooKeeper may write"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if after := traces(t, "doctor-beside"); after != before {
		t.Errorf("it left traces; before\n%s\nafter\n%s", before, after)
	}
	if log.String() != "" {
		t.Errorf("the instance logged %s", log.String())
	}
}

// traces are the keys of a namespace in Redis and its znodes in a snapshot of names.
func traces(t *testing.T, namespace string) string {
	t.Helper()
	host, port, _ := strings.Cut(lab.SharedRedis(t).Addr, ":")
	out, err := exec.CommandContext(
		t.Context(), "redis-cli", "-h", host, "-p", port, "--scan", "--pattern", "{"+namespace+"*").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(out))
	slices.Sort(names)
	znodes, err := lab.SharedZooKeeper(t).Command("srvr")
	if err != nil {
		t.Fatal(err)
	}
	_, count, _ := strings.Cut(znodes, "Node count: ")
	return fmt.Sprint(names, " znodes ", strings.TrimSpace(count))
}
